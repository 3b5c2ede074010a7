import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  createOutbox,
  createRelay,
  type OutboxMessage,
  type PublishedMessage,
  Reject,
  type RelayOptions,
  type Sql,
  Unavailable,
} from '../../src/index.ts';
import { SEED, seeded } from '../support/random.ts';
import { until } from '../support/until.ts';
import { backends, type WalletStore } from '../support/wallet.ts';
import { firsts, isEmpty, waiting, whileRunning } from './support.ts';

const quick = { pollMs: 20, backoff: { minMs: 1, maxMs: 20 }, leaseMs: 2_000 } as const;

describe.each(backends)('$name', ({ create }) => {
  let w: WalletStore;
  beforeEach(async () => {
    w = await create();
    await w.store.outbox.open();
  });
  afterEach(() => w.drop());

  const relay = (destination: RelayOptions['destination'], more: Partial<RelayOptions> = {}) =>
    createRelay({ store: w.store, destination, ...quick, ...more });
  /** Each message in a transaction of its own. */
  async function add(messages: readonly OutboxMessage[]): Promise<void> {
    const outbox = createOutbox({ store: w.store });
    for (const message of messages) {
      await w.store.transaction(async tx => outbox.add(tx, message));
      outbox.wake();
    }
  }
  const numbered = (n: number, key: string | undefined = 'k', topic = 't'): OutboxMessage => ({
    topic,
    ...(key === undefined ? {} : { key }),
    id: `${key}-${n}`,
    payload: n,
  });
  const seen = (published: readonly PublishedMessage[], key?: string) =>
    published
      .filter(one => key === undefined || one.key === key)
      .map(one => JSON.parse(Buffer.from(one.payload).toString()));

  test('what was committed is published once, in order per key, and deleted after the ack', async () => {
    const published: PublishedMessage[] = [];
    await add(Array.from({ length: 60 }, (_, n) => numbered(n, n % 6 === 0 ? undefined : `k${n % 6}`)));
    await whileRunning(
      relay(async message => {
        published.push(message);
        // Still there: nothing is deleted before the answer.
        if (published.length === 1) expect((await waiting(w.store)).some(row => row.id === message.id)).toBe(true);
      }),
      () => until('all is published', () => isEmpty(w.store)),
    );
    expect(published).toHaveLength(60);
    for (let k = 1; k < 6; k++)
      expect(seen(published, `k${k}`)).toEqual(seen(published, `k${k}`).toSorted((a, b) => a - b));
    const [first] = published;
    expect(first!.headers).toEqual({ 'message-id': first!.id });
    expect([first!.attempt, first!.json, first!.topic]).toEqual([1, true, 't']);
  });

  test('what was rolled back is never published', async () => {
    const published: PublishedMessage[] = [];
    const outbox = createOutbox({ store: w.store });
    const rolledBack = w.store.transaction(async (tx, sql: Sql) => {
      await outbox.add(tx, numbered(1));
      await sql`UPDATE wallet SET balance = 1`;
      throw new Error('on purpose');
    });
    await expect(rolledBack).rejects.toThrow('on purpose');
    await add([numbered(2)]);
    await whileRunning(
      relay(message => void published.push(message)),
      () => until('published', () => isEmpty(w.store)),
    );
    expect(seen(published)).toEqual([2]);
  });

  test('C102: a row goes only after a positive answer; what was refused or never answered comes again', async () => {
    const published: string[] = [];
    const acked: string[] = [];
    const tries = new Map<string, number>();
    const random = seeded(SEED);
    await add(Array.from({ length: 40 }, (_, n) => numbered(n, `k${n % 8}`)));
    await whileRunning(
      relay(
        async ({ id }) => {
          const nth = (tries.get(id) ?? 0) + 1;
          tries.set(id, nth);
          published.push(id);
          if (nth < 3 && random.chance(0.3)) throw new Error('no such exchange');
          if (nth < 3 && random.chance(0.1)) await new Promise(() => undefined);
          acked.push(id);
        },
        { publishTimeoutMs: 100 },
      ),
      () => until('all is published', () => isEmpty(w.store), 20_000),
    );
    expect(new Set(acked).size, `seed ${SEED}`).toBe(40);
    for (let k = 0; k < 8; k++) {
      const numbers = firsts(acked.filter(id => id.startsWith(`k${k}-`)).map(id => ({ id }))).map(({ id }) =>
        Number(id.split('-')[1]),
      );
      expect(numbers, `seed ${SEED}`).toEqual(numbers.toSorted((a, b) => a - b));
    }
  });

  test('C101: a refused row holds up its key and nothing else, and the state is each row’s own', async () => {
    const acked: string[] = [];
    let refuse = true;
    // The rows 1 and 4 are of one group, 2 and 3 of the other.
    await add([numbered(1, 'T2'), numbered(2, 'T1'), numbered(3, 'T1'), numbered(4, 'T2')]);
    await whileRunning(
      relay(({ id, key }) => {
        if (refuse && key === 'T2') throw new Error('not now');
        acked.push(id);
      }),
      async () => {
        await until('the other group is out', () => acked.length === 2);
        expect(acked).toEqual(['T1-2', 'T1-3']);
        refuse = false;
        await until('all is out', () => isEmpty(w.store));
      },
    );
    expect(acked).toEqual(['T1-2', 'T1-3', 'T2-1', 'T2-4']);
  });

  test('C105: rows of a key wait behind one that is refused twice, with two relays; other keys go on', async () => {
    const published: { readonly id: string }[] = [];
    let refusals = 0;
    await add([...Array.from({ length: 10 }, (_, n) => numbered(n + 1)), numbered(99, 'other')]);
    const slow = relay(
      async ({ id }) => {
        await new Promise(resolve => setTimeout(resolve, 20));
        published.push({ id });
      },
      { maxBatch: 5 },
    );
    const fast = relay(
      ({ id }) => {
        if (id === 'k-3' && refusals < 2) {
          refusals++;
          throw new Error('refused');
        }
        published.push({ id });
      },
      { maxBatch: 5 },
    );
    await whileRunning([slow, fast], () => until('all is out', () => isEmpty(w.store)));
    const ofKey = firsts(published.filter(({ id }) => id.startsWith('k-'))).map(({ id }) => id);
    expect(ofKey).toEqual(Array.from({ length: 10 }, (_, n) => `k-${n + 1}`));
    expect(published).toContainEqual({ id: 'other-99' });
  });

  test('C106: poison at the head is parked with its key, visibly; everything else goes out', async () => {
    const acked: string[] = [];
    const poison = Array.from({ length: 10 }, (_, n) => numbered(n, n < 9 ? `p${n}` : undefined));
    const behind = [numbered(100, 'p0'), numbered(101, 'p0')];
    const good = Array.from({ length: 100 }, (_, n) => numbered(n, `g${n % 7}`));
    await add([...poison, ...behind, ...good]);
    const one = relay(
      ({ id }) => {
        if (poison.some(message => message.id === id)) throw new Error('the message is too large');
        acked.push(id);
      },
      { maxBatch: 10, maxAttempts: 3 },
    );
    await whileRunning(one, async () => {
      await until('the good ones are out', () => acked.length === 100);
      await until('all poison is parked', async () => (await w.store.outbox.parked(100)).length === 10);
      await until('nothing waits', () => isEmpty(w.store));
      // One that comes later waits behind it too.
      await add([numbered(102, 'p0'), numbered(103, 'g0')]);
      await until('the later good one is out', () => acked.includes('g0-103'));
      await until('nothing waits', () => isEmpty(w.store));
      const parked = await w.store.outbox.parked(100);
      expect(parked.map(({ id, attempts, behind: n }) => [id, attempts, n])).toEqual(
        poison.map(({ id }, n) => [id, 3, n === 0 ? 3 : 0]),
      );
      expect(parked[0]!.reason).toBe('the message is too large');
      expect(await w.store.outbox.backlog()).toMatchObject({ waiting: 0, parked: 10, behind: 3 });
      expect(acked.filter(id => id.startsWith('p'))).toEqual([]);
      // What a person decides: one is thrown away, one is tried again.
      expect(await w.store.outbox.discard(parked[0]!.seq)).toBe(true);
      await until('those behind it are out', () => acked.filter(id => id.startsWith('p0')).length === 3);
      expect(acked.filter(id => id.startsWith('p0'))).toEqual(['p0-100', 'p0-101', 'p0-102']);
      poison.splice(0);
      expect(await w.store.outbox.retry(parked[1]!.seq)).toBe(true);
      await until('it is out', () => acked.includes('p1-1'));
      expect(await w.store.outbox.retry(parked[1]!.seq)).toBe(false);
      expect(await w.store.outbox.discard(parked[0]!.seq)).toBe(false);
    });
    expect(one.summary).toMatchObject({ parked: 10, refused: 30, published: 105 });
  });

  test('Reject parks at once', async () => {
    await add([numbered(1)]);
    const one = relay(() => {
      throw new Reject('never');
    });
    await whileRunning(one, () => until('it is parked', async () => (await w.store.outbox.parked(1)).length === 1));
    expect(one.summary).toMatchObject({ refused: 1, parked: 1 });
  });

  test('a destination that is down burns no attempts, and all goes out when it is back', async () => {
    let down = true;
    let calls = 0;
    const acked: string[] = [];
    await add(Array.from({ length: 20 }, (_, n) => numbered(n, `k${n % 3}`)));
    const one = relay(
      ({ id }) => {
        calls++;
        if (down)
          throw calls % 2 === 0 ? new Unavailable('the broker') : Object.assign(new Error(), { code: 'ECONNREFUSED' });
        acked.push(id);
      },
      { maxAttempts: 2 },
    );
    await whileRunning(one, async () => {
      await until('it was found down often', () => one.summary.outages > 10);
      expect((await waiting(w.store)).map(row => row.attempts)).toEqual(Array(20).fill(0));
      down = false;
      await until('all is out', () => isEmpty(w.store));
    });
    expect(acked).toHaveLength(20);
    expect(one.summary).toMatchObject({ refused: 0, parked: 0 });
  });

  test('C99, C100: ids in the order of commits, however transactions interleave and roll back', async () => {
    const random = seeded(SEED);
    const outbox = createOutbox({ store: w.store });
    const published: { readonly id: string; readonly key: string | undefined }[] = [];
    // The order in which the changes of a key took effect, kept by the row lock that they all take.
    await w.sql`CREATE TABLE versions (key text PRIMARY KEY, version integer NOT NULL)`;
    for (let k = 0; k < 3; k++) await w.sql`INSERT INTO versions (key, version) VALUES (${`k${k}`}, 0)`;
    let committed = 0;
    const adder = async (n: number) => {
      for (let i = 0; i < 25; i++) {
        const key = `k${random.below(3)}`;
        const fails = random.chance(0.2);
        const change = w.store.transaction(async (tx, sql: Sql) => {
          const [row] = await sql<{
            version: number;
          }>`UPDATE versions SET version = version + 1 WHERE key = ${key} RETURNING version`;
          await outbox.add(tx, {
            topic: 't',
            key,
            id: `${key}-${Number(row!.version)}-${n}-${i}`,
            payload: Number(row!.version),
          });
          await outbox.add(tx, { topic: 'free', id: `free-${n}-${i}`, payload: 0 });
          if (random.chance(0.3)) await new Promise(resolve => setTimeout(resolve, random.below(4)));
          if (fails) throw new Error('rolled back');
        });
        await change.then(
          () => committed++,
          () => undefined,
        );
      }
    };
    const relays = Array.from({ length: 3 }, () =>
      relay(({ id, key }) => void published.push({ id, key }), { maxBatch: 7 }),
    );
    await whileRunning(relays, async () => {
      await Promise.all(Array.from({ length: 6 }, (_, n) => adder(n)));
      await until('all is out', () => isEmpty(w.store), 20_000);
    });
    const once = firsts(published);
    expect(once, `seed ${SEED}`).toHaveLength(2 * committed);
    for (let k = 0; k < 3; k++) {
      const versions = once.filter(({ key }) => key === `k${k}`).map(({ id }) => Number(id.split('-')[1]));
      expect(versions, `seed ${SEED}`).toEqual(versions.map((_, v) => v + 1));
    }
  });

  test('C103: the id is made when the message is added, and repeats have the same', async () => {
    const outbox = createOutbox({ store: w.store });
    const published: string[] = [];
    await w.store.transaction(tx => outbox.add(tx, { topic: 't', payload: 1 }));
    const [row] = await waiting(w.store);
    let refused = 0;
    await whileRunning(
      relay(({ id }) => {
        published.push(id);
        if (refused++ < 3) throw new Error('refused');
      }),
      () => until('it is out', () => isEmpty(w.store)),
    );
    expect(published).toEqual(Array(4).fill(row!.id));
    expect(row!.id).toMatch(/^[0-9a-f-]{36}$/);
  });

  test('a stop ends what is under way, and gives up what takes longer; nothing is lost', async () => {
    const begun = Promise.withResolvers<void>();
    await add([numbered(1)]);
    const hanging = relay(() => {
      begun.resolve();
      return new Promise(() => undefined);
    });
    const run = hanging.run();
    await begun.promise;
    await hanging.stop({ withinMs: 20 });
    await run;
    expect((await waiting(w.store)).map(({ id, attempts }) => [id, attempts])).toEqual([['k-1', 0]]);
    const acked: string[] = [];
    await whileRunning(
      relay(({ id }) => void acked.push(id)),
      () => until('it is out', () => isEmpty(w.store)),
    );
    expect(acked).toEqual(['k-1']);
  });

  test('relays share the parts, and the parts of one that left go to those that stay', async () => {
    const { outbox } = w.store;
    const shares = async (...relays: string[]) =>
      Promise.all(relays.map(async one => [...(await outbox.join(one, 60_000))]));
    expect((await shares('a')).flat()).toHaveLength(16);
    await outbox.join('b', 60_000);
    const [a, b] = await shares('a', 'b');
    expect([...a!, ...b!].toSorted((x, y) => x - y)).toEqual(Array.from({ length: 16 }, (_, n) => n));
    expect([a!.length, b!.length]).toEqual([8, 8]);
    await outbox.leave('a');
    expect((await shares('b')).flat()).toHaveLength(16);
    // One whose lease runs out is not waited for.
    await outbox.join('c', 1);
    await until('its lease is over', async () => (await outbox.join('b', 60_000)).length === 16);
  });

  test('a number that stands for another row by now is not deleted for the old one', async () => {
    await add([numbered(1)]);
    const [row] = await waiting(w.store);
    await w.store.outbox.remove([{ ...row!, id: 'the one that a failover lost' }]);
    expect(await waiting(w.store)).toHaveLength(1);
    await w.store.outbox.remove([row!]);
    expect(await waiting(w.store)).toEqual([]);
  });
});
