import { afterEach, beforeEach, expect, test } from 'vitest';
import { leaseStoreSuite } from '../../src/conformance/index.ts';
import { claimOf, fingerprints, registration } from '../../src/conformance/store/support.ts';
import { completedCache, type LeaseInbox, type LeaseStore } from '../../src/index.ts';
import { memoryStore } from '../../src/memory.ts';
import { until } from '../support/until.ts';

leaseStoreSuite({
  test,
  name: 'memory behind a cache',
  create: async () => {
    let now = Date.now();
    const behind = memoryStore({ clock: { now: () => now, random: Math.random } });
    const passTime = async (ms: number) => {
      now += ms;
    };
    const store = completedCache(behind);
    return { store, secondStore: () => completedCache(behind), passTime, close: () => store.close() };
  },
});

let behind: ReturnType<typeof memoryStore>;
let claims: string[][];
let counted: LeaseStore;
beforeEach(() => {
  behind = memoryStore();
  claims = [];
  const { promise, name, capabilities, positions } = behind;
  counted = {
    promise,
    name,
    capabilities,
    positions,
    staleCalls: 0,
    ping: () => behind.ping(),
    stats: () => behind.stats(),
    close: () => behind.close(),
    open: async consumer => {
      const inbox = await behind.open(consumer);
      return {
        ...inbox,
        claim: (asked, leaseMs) => {
          claims.push(asked.map(({ hex }) => Buffer.from(hex, 'hex').subarray(1).toString()));
          return inbox.claim(asked, leaseMs);
        },
      };
    },
  };
});
afterEach(() => behind.close());

async function doneOn(inbox: LeaseInbox, id: string, result?: unknown): Promise<void> {
  const [grant] = await inbox.claim([claimOf(id, fingerprints.a)], 60_000);
  await inbox.complete([
    { claim: claimOf(id, fingerprints.a), nonce: grant!.nonce!, ...(result === undefined ? {} : { result }) },
  ]);
}

const answers = async (inbox: LeaseInbox, ...ids: readonly string[]) =>
  (
    await inbox.claim(
      ids.map(id => claimOf(id)),
      60_000,
    )
  ).map(grant => grant.answer.answer);

test('what is done is answered without a call, in the order of the batch; the rest is asked for together', async () => {
  const store = completedCache(counted);
  const inbox = await store.open(registration());
  await doneOn(inbox, 'm1', 'paid');
  claims.length = 0;
  expect(await answers(inbox, 'm0', 'm1', 'm2')).toEqual(['fresh', 'duplicate', 'fresh']);
  expect(await answers(inbox, 'm1')).toEqual(['duplicate']);
  expect(claims).toEqual([['m0', 'm2']]);
  expect(store.cache).toEqual({ hits: 2, misses: 3, entries: 1 });
  const [{ answer } = { answer: undefined }] = await inbox.claim([claimOf('m1')], 60_000);
  expect(answer).toMatchObject({ result: 'paid' });
});

test('a claim is never remembered: who owns a key only the store knows', async () => {
  const inbox = await completedCache(counted).open(registration());
  expect(await answers(inbox, 'm1')).toEqual(['fresh']);
  expect(await answers(inbox, 'm1')).toEqual(['busy']);
  expect(claims).toEqual([['m1'], ['m1']]);
});

test('what the store calls a duplicate is remembered too, and consumers do not see each other', async () => {
  const consumer = registration();
  await doneOn(await counted.open(consumer), 'm1');
  const store = completedCache(counted);
  const inbox = await store.open(consumer);
  claims.length = 0;
  expect([await answers(inbox, 'm1'), await answers(inbox, 'm1')]).toEqual([['duplicate'], ['duplicate']]);
  expect(claims).toEqual([['m1']]);
  expect(await answers(await store.open(registration()), 'm1')).toEqual(['fresh']);
});

test('C44: another payload is a conflict from the cache as well', async () => {
  const inbox = await completedCache(counted).open(registration());
  await doneOn(inbox, 'm1');
  const [grant] = await inbox.claim([claimOf('m1', fingerprints.b)], 60_000);
  expect(grant?.answer).toEqual({ answer: 'conflict', stored: fingerprints.a, offered: fingerprints.b });
});

test('it is bounded, forgets what was not asked for longest, and what is too old', async () => {
  const store = completedCache(counted, { maxEntries: 2, ttlMs: 40 });
  const inbox = await store.open(registration());
  for (const id of ['m1', 'm2']) await doneOn(inbox, id);
  await answers(inbox, 'm1');
  await doneOn(inbox, 'm3');
  expect(store.cache.entries).toBe(2);
  claims.length = 0;
  await answers(inbox, 'm1', 'm2', 'm3');
  expect(claims).toEqual([['m2']]);
  const end = performance.now() + 41;
  await until('they are too old', () => performance.now() > end);
  claims.length = 0;
  await answers(inbox, 'm3');
  expect(claims).toEqual([['m3']]);
  store.clearCache();
  expect(store.cache.entries).toBe(0);
});

test.each([{ maxEntries: 0 }, { ttlMs: 0.5 }])('a wrong option is refused: %o', options => {
  expect(() => completedCache(counted, options)).toThrow(expect.objectContaining({ code: 'NT_CONFIG' }));
});
