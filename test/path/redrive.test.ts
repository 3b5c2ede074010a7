import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createConsumer, type LetterContent, type RedriveOptions, Reject } from '../../src/index.ts';
import { Gates } from '../../src/testing/gates.ts';
import { manualClock } from './clock.ts';
import { deliverySource, type Given } from './deliveries.ts';
import { type AnyStore, allStores, freshName } from './stores.ts';

describe.each(allStores)('$name', ({ create }) => {
  let s: AnyStore;
  beforeAll(async () => {
    s = await create();
  });
  afterAll(() => s.drop());

  /** A consumer whose handler credits 1, but for the ids in `bad`, and what it has left as letters. */
  async function setUp(given: readonly Given[], bad: Iterable<string>, options: object = {}) {
    const [name, wallet, failing, order] = [freshName(), await s.wallet(), new Set(bad), [] as string[]];
    const made = (store = s.store) =>
      createConsumer({
        name,
        store,
        clock: manualClock(),
        retries: { attempts: 2 },
        handle: async (message: { id: string; body: unknown }, context: unknown) => {
          if (failing.has(message.id)) throw new Error(`no account for message ${message.id}`);
          await wallet.credit(context, 1);
          order.push(message.id);
        },
        ...options,
      } as never);
    const consumer = made();
    await consumer.run({ source: deliverySource(given) });
    const letters = (filter = {}) => s.store.letters!.list(name, filter, { limit: 100 });
    return { name, wallet, failing, order, consumer, made, letters };
  }

  test('a letter goes through the handler again, has its effect once, and is closed', async () => {
    const { consumer, failing, wallet, letters } = await setUp([{ id: 'm1' }, { id: 'm2' }], ['m1', 'm2']);
    expect(await letters()).toMatchObject([
      { messageId: 'm1', attempts: 2, kind: 'attempts', revision: 0, errors: [{ name: 'Error' }] },
      { messageId: 'm2' },
    ]);
    failing.delete('m1');
    const seen: unknown[] = [];
    const onLetter: RedriveOptions['onLetter'] = ({ letter, outcome, reason }) =>
      seen.push([letter.messageId, outcome, reason]);
    expect(await consumer.redrive({ by: 'ada', reason: 'account opened', onLetter })).toMatchObject({
      processed: 1,
      failed: 1,
    });
    expect(seen).toEqual([
      ['m1', 'processed', undefined],
      ['m2', 'failed', 'no account for message m2'],
    ]);
    expect(await letters()).toMatchObject([
      { messageId: 'm2', attempts: 4, history: [{ action: 'retry', by: 'ada', reason: 'account opened' }] },
    ]);
    expect(await consumer.redrive()).toMatchObject({ processed: 0, failed: 1 });
    const copies = deliverySource([{ id: 'm1' }]);
    await consumer.run({ source: copies });
    expect(copies.outcomes).toEqual(['duplicate']);
    expect(await wallet.balance()).toBe(1);
  });

  test('a failure has one fingerprint whatever message met it, and letters are found by it, by age, kind, key and id', async () => {
    const { letters, failing, consumer } = await setUp(
      [
        { id: 'm1', key: 'a' },
        { id: 'm2', key: 'b' },
        { id: 'm3', value: '{' },
      ],
      ['m1', 'm2'],
    );
    const all = await letters();
    const [one, two, three] = ['m1', 'm2', 'm3'].map(id => all.find(letter => letter.messageId === id));
    expect(one!.failure).toMatch(/^[0-9a-f]{16}$/);
    expect(two!.failure).toBe(one!.failure);
    expect(three!.failure).not.toBe(one!.failure);
    const ids = async (filter: object) => (await letters(filter)).map(letter => letter.messageId);
    expect(await ids({ fingerprint: one!.failure })).toEqual(['m1', 'm2']);
    expect(await ids({ kind: 'bad-message' })).toEqual(['m3']);
    expect(await ids({ key: 'b' })).toEqual(['m2']);
    expect(await ids({ messageId: 'm3' })).toEqual(['m3']);
    expect(await ids({ ids: [one!.id, two!.id, '999999999'] })).toEqual(['m1', 'm2']);
    expect(await ids({ olderThanMs: 60_000 })).toEqual([]);
    expect(await ids({ newerThanMs: 60_000 })).toEqual(['m3', 'm1', 'm2']);
    const page = await s.store.letters!.list(consumer.name, {}, { after: one!.id, limit: 1 });
    expect(page.map(letter => letter.messageId)).toEqual(['m2']);
    failing.clear();
    expect(await consumer.redrive({ filter: { fingerprint: one!.failure! }, dryRun: true })).toMatchObject({
      'would-retry': 2,
      processed: 0,
    });
    expect(await consumer.redrive({ filter: { fingerprint: one!.failure! }, most: 1 })).toMatchObject({ processed: 1 });
    expect(await ids({})).toEqual(['m3', 'm2']);
  });

  test('C98: a redrive goes the usual way: what was done meanwhile is a duplicate, what is being done stays', async () => {
    const { consumer, made, failing, wallet, letters, order } = await setUp(
      [{ id: 'm1' }, { id: 'm2' }, { id: 'm3' }],
      ['m1', 'm2', 'm3'],
    );
    failing.clear();
    const late = deliverySource([{ id: 'm1' }]);
    await consumer.run({ source: late });
    expect(late.outcomes).toEqual(['processed']);
    const gates = new Gates();
    const held = gates.hold('handle', 'before', 'm3');
    const elsewhere = made(s.another()).run({ source: deliverySource([{ id: 'm3' }]), points: gates });
    await held.reached;
    // One writer at a time: there nobody gets anything done while another's transaction is open.
    if (s.name === 'SQLite') held.release();
    if (s.name === 'SQLite') await elsewhere;
    const seen: string[] = [];
    await consumer.redrive({ onLetter: ({ letter, outcome }) => seen.push(`${letter.messageId} ${outcome}`) });
    const third = s.name === 'SQLite' ? 'm3 duplicate' : 'm3 busy';
    expect(seen).toEqual(['m1 duplicate', 'm2 processed', third]);
    expect((await letters()).map(letter => letter.messageId)).toEqual(third === 'm3 busy' ? ['m3'] : []);
    held.release();
    await elsewhere;
    expect(await consumer.redrive()).toMatchObject({ duplicate: third === 'm3 busy' ? 1 : 0, processed: 0 });
    expect(await letters()).toEqual([]);
    expect([await wallet.balance(), order.toSorted()]).toEqual([3, ['m1', 'm2', 'm3']]);
  });

  test('C98: two people at once, also when each gives the message another id, have the effect once', async () => {
    const { made, failing, wallet, letters, order } = await setUp([{ id: 'm1' }, { id: 'm2' }], ['m1', 'm2']);
    failing.clear();
    const [, two] = await letters();
    // Both have begun, and know the letter to be open, before either of them claims anything.
    const atOnce = async (ada: RedriveOptions, bob: RedriveOptions) => {
      const begun = [ada, bob].map((options, i) => {
        const points = new Gates();
        const held = points.hold('claim', 'before', undefined);
        return { held, done: made(i === 0 ? s.store : s.another()).redrive({ ...options, points }) };
      });
      // With leases the second one is told at once, and comes no further.
      for (const { held, done } of begun) await Promise.race([held.reached, done]);
      for (const { held } of begun) held.release();
      return Promise.all(begun.map(({ done }) => done));
    };
    const one = { filter: { messageId: 'm1' } };
    const edited = (to: string) => ({ filter: { ids: [two!.id] }, edit: { headers: { 'message-id': to } } });
    const pairs = [await atOnce(one, one), await atOnce(edited('m2-by-ada'), edited('m2-by-bob'))];
    for (const [ada, bob] of pairs) expect(ada!.processed + bob!.processed).toBe(1);
    expect(await wallet.balance()).toBe(2);
    expect(order).toHaveLength(2);
    expect(await letters()).toEqual([]);
  });

  test('a body that was wrong, or an id that was missing, is mended for good, and what came is kept beside it', async () => {
    const { consumer, wallet, letters, order } = await setUp([{ id: 'm1', value: '{' }, { body: { amount: 2 } }], []);
    const [wrong, nameless] = await letters();
    expect([wrong!.kind, nameless!.kind, nameless!.messageId]).toEqual(['bad-message', 'bad-id', undefined]);
    expect(await consumer.redrive()).toMatchObject({ failed: 2 });
    const edit = { headers: { 'message-id': 'm2', note: 'by hand' } };
    await expect(consumer.redrive({ edit })).rejects.toMatchObject({ code: 'NT_CONFIG' });
    const still = await consumer.redrive({ filter: { ids: [wrong!.id] }, edit: { body: '{"a":' }, by: 'ada' });
    expect(still).toMatchObject({ failed: 1 });
    const [revised] = await letters();
    expect(revised).toMatchObject({ id: wrong!.id, revision: 1 });
    expect(Buffer.from(revised!.payload).toString()).toBe('{"a":');
    expect(Buffer.from(revised!.original!.payload).toString()).toBe('{');
    expect(revised!.history.map(event => event.action)).toEqual(['retry', 'revise']);
    expect(await consumer.redrive({ filter: { ids: [wrong!.id] }, edit: { body: '{}' } })).toMatchObject({
      processed: 1,
    });
    expect(await consumer.redrive({ filter: { ids: [nameless!.id] }, edit })).toMatchObject({ processed: 1 });
    expect(order).toEqual(['m1', 'm2']);
    // The one that was mended is not the one that came: a late copy of that is no copy of what was done.
    const late = deliverySource([
      { id: 'm1', value: '{}' },
      { id: 'm2', body: { amount: 2 } },
    ]);
    await consumer.run({ source: late });
    expect(late.outcomes).toEqual(['conflict', 'conflict']);
    expect(await wallet.balance()).toBe(2);
  });

  test("deadLetter: 'key': followers stay behind a letter that fails again, and keep their order when it does not", async () => {
    const given = ['m1', 'm2', 'm3', 'm4', 'm5'].map((id, i) => ({ id, key: i === 1 ? 'b' : 'a' }));
    const { consumer, failing, letters, order } = await setUp(given, ['m1'], { deadLetter: 'key' });
    expect(order).toEqual(['m2']);
    expect((await letters()).map(letter => [letter.messageId, letter.kind])).toEqual([
      ['m1', 'attempts'],
      ['m3', 'behind'],
      ['m4', 'behind'],
      ['m5', 'behind'],
    ]);
    expect(await consumer.redrive()).toMatchObject({ failed: 1, waiting: 3 });
    expect(await consumer.redrive({ filter: { messageId: 'm4' } })).toMatchObject({ waiting: 1 });
    failing.clear();
    failing.add('m4');
    expect(await consumer.redrive()).toMatchObject({ processed: 2, failed: 1, waiting: 1 });
    await consumer.run({ source: deliverySource([{ id: 'm6', key: 'a' }]) });
    failing.clear();
    expect(await consumer.redrive()).toMatchObject({ processed: 3 });
    expect(order).toEqual(['m2', 'm1', 'm3', 'm4', 'm5', 'm6']);
    await consumer.run({ source: deliverySource([{ id: 'm7', key: 'a' }]) });
    expect(order.at(-1)).toBe('m7');
  });

  test('Reject and context.reject leave the letter open with the new reason; a conflict stays one', async () => {
    let reason = 'closed';
    const { consumer, letters, failing } = await setUp(
      [{ id: 'm1' }, { id: 'm2', body: 1 }, { id: 'm2', body: 2 }],
      [],
      {
        handle: async (message: { id: string }) => {
          if (message.id === 'm1') throw new Reject(reason);
        },
      },
    );
    failing.clear();
    reason = 'still closed';
    expect((await letters()).map(letter => letter.kind).toSorted()).toEqual(['conflict', 'rejected']);
    expect(await consumer.redrive()).toMatchObject({ failed: 2 });
    expect((await letters()).map(letter => [letter.kind, letter.reason.slice(0, 12)]).toSorted()).toEqual([
      ['conflict', 'the same id '],
      ['rejected', 'still closed'],
    ]);
  });

  test('letterSeal: nothing is stored as it came, and a redrive opens it; without open it stays', async () => {
    const flip = (bytes: Uint8Array) => Uint8Array.from(bytes, byte => byte ^ 0xff);
    const seal = ({ headers, payload }: LetterContent): LetterContent => ({
      headers: headers.map(
        ([name, value]) => [name, Buffer.from(flip(Buffer.from(value))).toString('base64')] as const,
      ),
      payload: flip(payload),
    });
    const open = ({ headers, payload }: LetterContent): LetterContent => ({
      headers: headers.map(
        ([name, value]) => [name, Buffer.from(flip(Buffer.from(value, 'base64'))).toString()] as const,
      ),
      payload: flip(payload),
    });
    const given = ['m1', 'm2'].map(id => ({
      headers: { 'message-id': id, mail: 'ada@x.example' },
      body: { name: 'Ada' },
    }));
    const { consumer, failing, letters, order, made } = await setUp(given, ['m1', 'm2'], {
      letterSeal: { seal, open },
    });
    const stored = await letters();
    for (const letter of stored) {
      const text = JSON.stringify([letter.headers, letter.errors]) + Buffer.from(letter.payload).toString('latin1');
      expect(text).not.toMatch(/ada@x|Ada/);
      expect(letter.sealed).toBe(true);
    }
    expect(await consumer.redrive()).toMatchObject({ failed: 2 });
    failing.clear();
    const without = createConsumer({
      name: consumer.name,
      store: s.store,
      handle: () => undefined,
      letterSeal: { seal },
    } as never);
    expect(await without.redrive()).toMatchObject({ failed: 2, processed: 0 });
    const edit = { headers: { mail: 'bob@x.example' }, body: '{"name":"Bob"}' };
    failing.add('m2');
    expect(await consumer.redrive({ filter: { messageId: 'm2' }, edit })).toMatchObject({ failed: 1 });
    const [, revised] = await letters();
    expect(Buffer.from(revised!.payload).toString('latin1')).not.toContain('Bob');
    expect(Buffer.from(open(revised!).payload).toString()).toBe('{"name":"Bob"}');
    failing.clear();
    expect(await made().redrive()).toMatchObject({ processed: 2 });
    expect(order).toEqual(['m1', 'm2']);
  });

  test('letterSeal that throws stores nothing and acks nothing', async () => {
    const letterSeal = {
      seal: () => {
        throw new Error('the key is away');
      },
    };
    const name = freshName();
    const handle = () => {
      throw new Reject('no');
    };
    const consumer = createConsumer({ name, store: s.store, handle, letterSeal } as never);
    const source = deliverySource([{ id: 'm1' }]);
    await expect(consumer.run({ source })).rejects.toMatchObject({ code: 'NT_CONFIG' });
    expect(source.outcomes).toEqual([undefined]);
    expect(await s.store.letters!.list(name, {}, { limit: 1 })).toEqual([]);
  });

  test('the error chain is bounded and repeats nothing of the body', async () => {
    const { letters } = await setUp([{ id: 'm1', body: { card: '4111 1111 1111 1111' } }], [], {
      handle: async (message: { body: { card: string } }) => {
        const cause = Object.assign(new Error(`declined ${message.body.card}`), { code: 'E_CARD' });
        let error: Error = new Error('x'.repeat(5_000), { cause });
        for (let depth = 0; depth < 20; depth++) error = new Error(`level ${depth}`, { cause: error });
        throw depthOf(error, message.body.card);
      },
    });
    const [letter] = await letters();
    const text = JSON.stringify([letter!.reason, letter!.errors]);
    expect(text).not.toContain('4111');
    expect(text.length).toBeLessThan(10_000);
    expect(letter!.errors).toHaveLength(8);
    expect(letter!.reason).toContain('left out');
  });
});

function depthOf(cause: Error, card: string): Error {
  return new Error(`cannot charge ${card}`, { cause });
}
