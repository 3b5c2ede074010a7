import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createConsumer, createInbox, fingerprintOf, type Policy, Reject } from '../../src/index.ts';
import { testConsumer } from '../../src/testing/index.ts';
import { deliverySource, type Given } from './deliveries.ts';
import { type AnyStore, allStores, freshName, type Wallet } from './stores.ts';
import { warningsOf } from './warnings.ts';

const five = { amount: 500, note: 'first' };
const nine = { amount: 900, note: 'second' };
const [storedPrint, offeredPrint] = [fingerprintOf(five), fingerprintOf(nine)];
const conflict = {
  kind: 'conflict',
  id: 'm1',
  reason: `the same id was processed with another payload (fingerprint ${storedPrint}, this one ${offeredPrint})`,
  payload: JSON.stringify(nine),
};

describe.each(allStores)('$name', ({ name: storeName, create }) => {
  let s: AnyStore;
  beforeAll(async () => {
    s = await create();
  });
  afterAll(() => s.drop());

  const consumerOf = (name: string, wallet: Wallet, policy: Policy = {}) =>
    createConsumer({
      name,
      store: s.store,
      ...policy,
      handle: (message, context) => wallet.credit(context, (message.body as { amount: number }).amount),
    });

  async function run(name: string, wallet: Wallet, bodies: readonly unknown[], policy?: Policy, together = true) {
    const given = bodies.map((body): Given => ({ id: 'm1', value: JSON.stringify(body) }));
    const consumer = consumerOf(name, wallet, { ...policy, maxBatch: together ? 100 : 1 });
    const source = deliverySource(given);
    const summary = await consumer.run({ source });
    return { outcomes: source.outcomes, summary };
  }

  test.each([
    ['(a) after completion', false],
    ['(c) in one batch', true],
  ])('C44 %s: another payload is a conflict, parked with both fingerprints and its own bytes', async (_, together) => {
    const [name, wallet] = [freshName(), await s.wallet()];
    const { outcomes, summary } = await run(name, wallet, [five, nine, five], undefined, together);
    expect(outcomes).toEqual(['processed', 'conflict', 'duplicate']);
    expect(summary).toEqual({ processed: 1, duplicates: 1, conflicts: 1, deadLetters: 0, failed: 0 });
    expect(await wallet.balance()).toBe(500);
    expect(await s.deadLetters(name)).toEqual([{ ...conflict, attempts: 0, position: 'orders/0/1' }]);
  });

  test('C44 (b) while the first is running: the same', async () => {
    const [name, wallet] = [freshName(), await s.wallet()];
    const [running, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const consumer = createConsumer({
      name,
      store: s.store,
      handle: async (message, context) => {
        running.resolve();
        await goOn.promise;
        await wallet.credit(context, (message.body as { amount: number }).amount);
      },
    });
    await using t = await testConsumer(consumer);
    const first = t.deliver({ id: 'm1', body: five });
    await running.promise;
    const claiming = t.hold('claim', 'before');
    const second = t.deliver({ id: 'm1', body: nine });
    await claiming.reached;
    claiming.release();
    // A lease store knows already; a database waits for the first to end.
    if (storeName === 'memory') expect(await second).toBe('conflict');
    goOn.resolve();
    expect([await first, await second]).toEqual(['processed', 'conflict']);
    expect(consumer.summary).toEqual({ processed: 1, duplicates: 0, conflicts: 1, deadLetters: 0, failed: 0 });
    expect(await wallet.balance()).toBe(500);
    expect(await s.deadLetters(name)).toMatchObject([conflict]);
  });

  test.skipIf(storeName === 'memory')('C44 (b) when the first then rolls back, the second is processed', async () => {
    const [name, wallet] = [freshName(), await s.wallet()];
    const consumer = createConsumer({
      name,
      store: s.store,
      handle: async (message, context) => {
        const { amount } = message.body as { amount: number };
        await wallet.credit(context, amount);
        if (amount === 500) throw new Reject('no such customer');
      },
    });
    await using t = await testConsumer(consumer);
    const claimed = t.hold('claim', 'after');
    const first = t.deliver({ id: 'm1', body: five });
    await claimed.reached;
    const claiming = t.hold('claim', 'before');
    const second = t.deliver({ id: 'm1', body: nine });
    await claiming.reached;
    claiming.release();
    claimed.release();
    // Whichever decides first about the first one's dead letter, only one of the two payloads is done.
    expect(await second).toBe('processed');
    expect(['dead-lettered', 'conflict']).toContain(await first);
    expect(await wallet.balance()).toBe(900);
  });

  test('a payload that was rejected or failed binds nobody, not even in one batch', async () => {
    const [name, wallet] = [freshName(), await s.wallet()];
    const consumer = createConsumer({
      name,
      store: s.store,
      retries: { attempts: 1 },
      handle: async (message, context) => {
        const { amount } = message.body as { amount: number };
        if (amount === 1) throw new Reject('too little');
        if (amount === 2) throw new Error('too little');
        await wallet.credit(context, amount);
      },
    });
    const source = deliverySource([1, 2, 500, 900].map(amount => ({ id: 'm1', body: { amount } })));
    await consumer.run({ source });
    expect(source.outcomes).toEqual(['dead-lettered', 'dead-lettered', 'processed', 'conflict']);
    expect(await wallet.balance()).toBe(500);
  });

  test('several wrong payloads are several dead letters; a wrong one that comes again is no other', async () => {
    const [name, wallet] = [freshName(), await s.wallet()];
    await run(name, wallet, [five, nine, { amount: 1 }, nine]);
    const second = await run(name, wallet, [{ amount: 1 }, nine, five, { amount: 2 }]);
    expect(second.outcomes).toEqual(['conflict', 'conflict', 'duplicate', 'conflict']);
    const letters = await s.deadLetters(name);
    expect(letters.map(letter => JSON.parse(letter.payload).amount).sort()).toEqual([1, 2, 900]);
    expect(await wallet.balance()).toBe(500);
  });

  describe.each([{ together: true }, { together: false }])('in one batch: $together', ({ together }) => {
    test("onConflict: 'warn' drops it like a duplicate and says so, without the payload", async () => {
      const [name, wallet] = [freshName(), await s.wallet()];
      const warnings = await warningsOf('NT_CONFLICT');
      const { outcomes, summary } = await run(name, wallet, [five, nine], { onConflict: 'warn' }, together);
      expect(outcomes).toEqual(['processed', 'conflict']);
      expect(summary).toMatchObject({ processed: 1, conflicts: 1, duplicates: 0 });
      expect(await s.deadLetters(name)).toEqual([]);
      expect(await wallet.balance()).toBe(500);
      expect(await warnings.read()).toEqual([`${name}: ${conflict.reason}, at orders/0/1`]);
    });

    test("onConflict: 'accept' drops it in silence", async () => {
      const [name, wallet] = [freshName(), await s.wallet()];
      const warnings = await warningsOf('NT_CONFLICT');
      const { outcomes, summary } = await run(name, wallet, [five, nine], { onConflict: 'accept' }, together);
      expect(outcomes).toEqual(['processed', 'duplicate']);
      expect(summary).toMatchObject({ processed: 1, conflicts: 0, duplicates: 1 });
      expect(await s.deadLetters(name)).toEqual([]);
      expect(await wallet.balance()).toBe(500);
      expect(await warnings.read()).toEqual([]);
    });

    test('fingerprint: false sees duplicates only; a function decides what is compared', async () => {
      const off = await run(freshName(), await s.wallet(), [five, nine], { fingerprint: false }, together);
      expect(off.outcomes).toEqual(['processed', 'duplicate']);
      const amount: Policy = { fingerprint: message => message.body.amount };
      const part = await run(freshName(), await s.wallet(), [five, { ...five, note: 'other' }, nine], amount, together);
      expect(part.outcomes).toEqual(['processed', 'duplicate', 'conflict']);
    });

    test('C45: the order of keys does not matter; the order of arrays and the type of a value do', async () => {
      const texts = [
        '{"amount":5,"lines":[1,2],"n":1}',
        '{ "n": 1, "lines": [1, 2], "amount": 5 }',
        '{"amount":5,"lines":[2,1],"n":1}',
        '{"amount":5,"lines":[1,2],"n":"1"}',
        '{"amount":5,"lines":[1,2],"n":1,"more":null}',
      ];
      const source = deliverySource(texts.map(value => ({ id: 'm1', value })));
      await consumerOf(freshName(), await s.wallet(), { maxBatch: together ? 100 : 1 }).run({ source });
      expect(source.outcomes).toEqual(['processed', 'duplicate', 'conflict', 'conflict', 'conflict']);
    });
  });

  test('C45: values that JSON does not have are compared, and a body that refers to itself is refused by path', async () => {
    const [name, wallet] = [freshName(), await s.wallet()];
    const rich = () => ({ amount: 5, at: new Date(1), big: 7n, bytes: Buffer.from('x'), map: new Map([['k', 1]]) });
    const circular: Record<string, unknown> = { amount: 5, secret: 'geheim' };
    circular.self = { again: circular };
    const source = deliverySource([
      ...[rich(), { ...rich(), gone: undefined }, { ...rich(), big: 7 }, { ...rich(), at: new Date(2) }].map(body => ({
        id: 'm1',
        body,
      })),
      { id: 'm2', body: circular },
      { id: 'm3', body: { amount: 5, text: 'x'.repeat(1_000_000) } },
    ]);
    await consumerOf(name, wallet).run({ source });
    expect(source.outcomes).toEqual(['processed', 'duplicate', 'conflict', 'conflict', 'dead-lettered', 'processed']);
    const letter = (await s.deadLetters(name)).find(({ id }) => id === 'm2')!;
    expect(letter.kind).toBe('bad-message');
    expect(letter.reason).toMatch(/self\.again.*refers back/);
    expect(letter.reason).not.toContain('geheim');
  });

  test('createInbox: dead-lettered with both fingerprints in the reason; the caller may ack', async () => {
    const [name, wallet] = [freshName(), await s.wallet()];
    const inbox = createInbox({ name, store: s.store });
    const process = (body: { amount: number }) =>
      inbox.process({ id: 'm1', body }, (message, context) => wallet.credit(context, message.body.amount));
    expect((await process(five)).status).toBe('processed');
    expect(await process(nine)).toEqual({ status: 'dead-lettered', reason: conflict.reason });
    expect((await process(five)).status).toBe('duplicate');
    expect(await wallet.balance()).toBe(500);
    expect(await s.deadLetters(name)).toMatchObject([conflict]);
  });
});
