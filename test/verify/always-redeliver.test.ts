import { expect, test } from 'vitest';
import { alwaysRedeliver } from '../../src/verify/always-redeliver.ts';

test('the second copy comes while the first is at work', async () => {
  const both = Promise.withResolvers<void>();
  let at = 0;
  const handler = alwaysRedeliver(async (message: { id: string }) => {
    expect(message.id).toBe('m1');
    if (++at === 2) both.resolve();
    // Alone, the first would never end.
    await both.promise;
  });
  await handler({ id: 'm1' });
  expect(at).toBe(2);
});

test('a copy that fails beside the other comes again alone', async () => {
  const seen = new Set<string>();
  let failures = 0;
  let done = 0;
  const handler = alwaysRedeliver(async (id: string) => {
    if (seen.has(id)) {
      failures++;
      seen.delete(id);
      throw new Error('busy');
    }
    seen.add(id);
    await Promise.resolve();
    done++;
  });
  await handler('m1');
  expect([done, failures]).toEqual([2, 1]);
});

test('what always fails is told, also when it throws before its promise', async () => {
  let calls = 0;
  const handler = alwaysRedeliver(() => {
    calls++;
    throw new Error('poison');
  });
  await expect(handler()).rejects.toThrow('poison');
  expect(calls).toBe(2 + 3);
});
