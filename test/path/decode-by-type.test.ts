import { expect, test } from 'vitest';
import { createConsumer } from '../../src/index.ts';
import { memorySource, memoryStore } from '../../src/memory.ts';

test('a type may decode its bodies in its own way, and the id may be taken from what it decodes', async () => {
  const seen: unknown[] = [];
  const consumer = createConsumer({
    name: 'mixed',
    store: memoryStore(),
    decode: value => ({ by: 'consumer', text: String(value) }),
    handlers: {
      Csv: {
        decode: value => ({
          cells: Buffer.from(value as Uint8Array)
            .toString()
            .split(','),
        }),
        handle: m => seen.push(m.body),
      },
      Other: { handle: m => seen.push((m.body as { by: string }).by) },
    },
  });
  const source = memorySource(
    [
      { id: '1', type: 'Csv', value: 'a,b' },
      { id: '2', type: 'Other', value: 'x' },
    ],
    { partitions: 1 },
  );
  expect(await consumer.run({ source })).toMatchObject({ processed: 2 });
  expect(seen).toEqual([{ cells: ['a', 'b'] }, 'consumer']);
});
