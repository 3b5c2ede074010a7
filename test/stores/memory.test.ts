import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test, vi } from 'vitest';
import type { LeaseGrant, LeaseInbox } from '../../src/ports/store.ts';
import { type MemoryOptions, memoryStore } from '../../src/stores/memory/index.ts';
import { claimOf, letterOf } from './sqlite-support.ts';

const consumer = { name: 'ledger', signature: 's/1' };

/** A store whose clock the test moves. */
async function onFakeClock(options: MemoryOptions = {}) {
  let now = 1_700_000_000_000;
  const store = memoryStore({ clock: { now: () => now, random: () => 0.5 }, ...options });
  const inbox = await store.open(consumer);
  return { store, inbox, pass: (ms: number) => (now += ms) };
}

const claimOne = async (inbox: LeaseInbox, id: string, leaseMs = 1_000) =>
  (await inbox.claim([claimOf(id)], leaseMs))[0]!;

async function complete(inbox: LeaseInbox, id: string, grant?: LeaseGrant): Promise<void> {
  const { nonce } = grant ?? (await claimOne(inbox, id));
  expect(await inbox.complete([{ claim: claimOf(id), nonce: nonce! }])).toEqual([true]);
}

const answerTo = async (inbox: LeaseInbox, id: string) => (await claimOne(inbox, id)).answer.answer;

test('C91: retention counts from completion, not from the claim', async () => {
  const { store, inbox, pass } = await onFakeClock({ retentionMs: 60_000 });
  const grant = await claimOne(inbox, 'm1', 120_000);
  pass(59_000);
  await complete(inbox, 'm1', grant);
  pass(59_999);
  expect(await answerTo(inbox, 'm1')).toBe('duplicate');
  expect((await store.stats())[0]).toMatchObject({ processed: 1 });
  pass(1);
  expect((await store.stats())[0]).toMatchObject({ processed: 0, oldest: undefined });
  expect(await answerTo(inbox, 'm1')).toBe('fresh');
});

test('C91: ids whose retention has ended leave the memory, though nobody asks for them again', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const usedMb = () => {
    collect();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    return (heapUsed + arrayBuffers) / 2 ** 20;
  };
  const ids = 100_000;
  const { store, inbox, pass } = await onFakeClock({ retentionMs: 500 });
  const base = usedMb();
  for (let i = 0; i < ids; i += 1_000) {
    const claims = Array.from({ length: 1_000 }, (_, n) => claimOf(`message-${i + n}`));
    const grants = await inbox.claim(claims, 1_000);
    await inbox.complete(grants.map((grant, n) => ({ claim: claims[n]!, nonce: grant.nonce! })));
  }
  const full = usedMb();
  expect(full - base).toBeGreaterThan(3);
  pass(501);
  await vi.waitFor(() => expect(usedMb() - base).toBeLessThan((full - base) / 5), { timeout: 20_000, interval: 200 });
  await store.close();
});

test('an id that comes again after its retention is kept anew, with its new result', async () => {
  const { store, inbox, pass } = await onFakeClock({ retentionMs: 60_000 });
  for (const result of ['first', 'second', 'third']) {
    const { nonce } = await claimOne(inbox, 'm1');
    await inbox.complete([{ claim: claimOf('m1'), nonce: nonce!, result }]);
    pass(59_999);
    expect((await claimOne(inbox, 'm1')).answer).toMatchObject({ answer: 'duplicate', result });
    expect((await store.stats())[0]).toMatchObject({ processed: 1 });
    pass(1);
  }
});

test('above maxEntries the oldest completed ids go first, and a live claim never', async () => {
  const { inbox } = await onFakeClock({ maxEntries: 3 });
  const live = await claimOne(inbox, 'live');
  for (const id of ['m1', 'm2', 'm3']) await complete(inbox, id);
  expect(await inbox.claim([claimOf('m3'), claimOf('m2')], 1_000)).toMatchObject([
    { answer: { answer: 'duplicate' } },
    { answer: { answer: 'duplicate' } },
  ]);
  expect(await answerTo(inbox, 'm1')).toBe('fresh');
  for (const id of ['m4', 'm5', 'm6', 'm7']) await claimOne(inbox, id);
  expect(await answerTo(inbox, 'live')).toBe('busy');
  await complete(inbox, 'live', live);
});

test('claims that were given up or whose owner died are forgotten after the retention', async () => {
  vi.useFakeTimers();
  try {
    const { inbox, pass } = await onFakeClock({ retentionMs: 50_000 });
    const given = await claimOne(inbox, 'given up');
    await inbox.release([{ claim: claimOf('given up'), nonce: given.nonce! }]);
    const died = await claimOne(inbox, 'died');
    pass(51_000);
    await vi.advanceTimersByTimeAsync(50_000);
    // Forgotten: nobody owns it any more, so that the late owner is told so.
    expect(await inbox.complete([{ claim: claimOf('died'), nonce: died.nonce! }])).toEqual([false]);
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});

test('tokens rise and nonces differ though clock and chance stand still', async () => {
  const { inbox } = await onFakeClock();
  const grants: LeaseGrant[] = [];
  for (let i = 0; i < 3; i++) {
    const grant = await claimOne(inbox, 'm1');
    grants.push(grant);
    await inbox.release([{ claim: claimOf('m1'), nonce: grant.nonce! }]);
  }
  const first = 1_700_000_000_000_000n;
  expect(grants.map(grant => grant.token)).toEqual([first, first + 1n, first + 2n]);
  expect(new Set(grants.map(grant => grant.nonce)).size).toBe(3);
});

test('C92: a wall clock that jumps does not end a lease', async () => {
  const store = memoryStore();
  const inbox = await store.open(consumer);
  await claimOne(inbox, 'm1', 60_000);
  const clock = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 180_000);
  expect(await answerTo(inbox, 'm1')).toBe('busy');
  clock.mockRestore();
  await store.close();
});

test('dead letters are there to read, once each, and bounded with a warning', async () => {
  const warning = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
  const { store, inbox } = await onFakeClock({ maxDeadLetters: 2 });
  expect(store.deadLetters('ledger')).toEqual([]);
  await inbox.deadLetter([letterOf('01', { reason: 'first' }), letterOf('02')]);
  await inbox.deadLetter([letterOf('01', { reason: 'second' })]);
  expect(store.deadLetters('ledger').map(letter => letter.reason)).toEqual(['second', 'first reason']);
  expect(warning).not.toHaveBeenCalled();
  await inbox.deadLetter([letterOf('03'), letterOf('04')]);
  expect(store.deadLetters('ledger').map(letter => letter.dedupe)).toEqual(['03', '04']);
  expect(store.deadLetters('nobody')).toEqual([]);
  expect(warning).toHaveBeenCalledTimes(1);
  warning.mockRestore();
});

test('options and names that are wrong, and a closed store, are refused', async () => {
  for (const options of [{ maxEntries: 0 }, { retentionMs: Number.NaN }, { maxDeadLetters: -1 }]) {
    const [option] = Object.keys(options);
    expect(() => memoryStore(options)).toThrow(
      expect.objectContaining({ code: 'NT_CONFIG', message: expect.stringContaining(option!) }),
    );
  }
  const store = memoryStore();
  await expect(store.open({ name: ' ', signature: 's/1' })).rejects.toMatchObject({ code: 'NT_CONFIG' });
  await expect(store.positions.save('nobody', 'l', '1')).rejects.toMatchObject({ code: 'NT_CONFIG' });
  const inbox = await store.open(consumer);
  await store.close();
  await expect(inbox.claim([claimOf('m1')], 1_000)).rejects.toMatchObject({ code: 'NT_CONFIG' });
  await expect(store.ping()).rejects.toMatchObject({ code: 'NT_CONFIG' });
});
