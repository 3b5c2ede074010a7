import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  createConsumer,
  createInbox,
  type EffectOptions,
  type EffectRows,
  type Incoming,
  isNevertwiceError,
  type MessageContext,
  NotDone,
  type Points,
  Reject,
  type Store,
  type TransactionalStore,
} from '../../src/index.ts';
import { memorySource, memoryStore } from '../../src/memory.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { type Payments, payments } from '../support/payments.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';
import { until } from '../support/until.ts';

interface Place {
  readonly store: Store;
  readonly effects: true | TransactionalStore<any>;
  readonly rows: EffectRows;
  /** As another process has it. */
  another(): Pick<Place, 'store' | 'effects'>;
  close(): Promise<void>;
}

let database: FreshDatabase;
beforeAll(async () => {
  database = await freshDatabase();
});
afterAll(() => database.drop());

function onPool(pipeline: boolean): Place {
  const pool = database.pool({ pipeline, max: 3 });
  const make = () => ({ store: postgresStore(pool), effects: true }) as const;
  const one = make();
  return { ...one, rows: one.store.effects!, another: make, close: () => pool.end() };
}

/** A client of which the store knows how to run a transaction, and nothing else. */
function onExecutor(): Place {
  const pool = database.pool({ pipeline: false, max: 5 });
  const make = () => {
    const store = postgresStore<any>({
      connections: 5,
      async transaction(work) {
        const client = await pool.connect();
        try {
          await client.query('BEGIN');
          const result = await work(client);
          await client.query('COMMIT');
          return result;
        } catch (error) {
          await client.query('ROLLBACK');
          throw error;
        } finally {
          client.release();
        }
      },
      query: (client, text, values) => client.query(text, [...values]),
    });
    return { store, effects: true } as const;
  };
  const one = make();
  return { ...one, rows: one.store.effects!, another: make, close: () => pool.end() };
}

function onFiles(handlers: (folder: string) => () => Store): Place {
  const folder = mkdtempSync(join(tmpdir(), 'nevertwice-effects-'));
  const open = handlers(folder);
  const opened: { close(): Promise<void> }[] = [];
  const make = () => {
    const store = open();
    const effects = sqliteStore(join(folder, 'effects.db'));
    opened.push(store, effects);
    return { store, effects };
  };
  const one = make();
  return {
    ...one,
    rows: one.effects.effects!,
    another: make,
    async close() {
      for (const store of opened) await store.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const places: readonly { readonly name: string; open(): Place }[] = [
  { name: 'PostgreSQL, pipelined', open: () => onPool(true) },
  { name: 'PostgreSQL, plain pool', open: () => onPool(false) },
  { name: 'PostgreSQL, an executor', open: onExecutor },
  { name: 'SQLite', open: () => onFiles(folder => () => sqliteStore(join(folder, 'wallet.db'))) },
  {
    name: 'memory, with a ledger in SQLite',
    open: () =>
      onFiles(() => {
        const store = memoryStore();
        return () => store;
      }),
  },
];

let names = 0;
const fresh = (what: string) => `${what}-${++names}`;

describe.each(places)('effects: $name', ({ open }) => {
  let place: Place;
  let provider: Payments;
  let name: string;
  let account: string;
  beforeEach(async () => {
    [place, provider, name, account] = [open(), await payments({ honours: true }), fresh('pay'), fresh('account')];
  });
  afterEach(async () => {
    await provider.close();
    await place.close();
  });

  type Work = (effect: MessageContext['effect']) => Promise<unknown>;
  const inbox = (options: object = {}, at: Pick<Place, 'store' | 'effects'> = place) =>
    createInbox({ name, ...at, leaseMs: 2_000, busyWaitMs: 10_000, ...options });
  const processed = (work: Work, message: Partial<Incoming<unknown>> = {}, options: object = {}) =>
    inbox(options).process({ id: 'm1', body: {}, ...message }, (_, context) =>
      work((context as MessageContext).effect),
    );
  const charge = (effect: MessageContext['effect'], options: EffectOptions = {}, at = provider) =>
    effect('charge', ({ key, signal }) => at.charge(key, account, 500, signal), options);

  test('C114: a handler that fails after its call gets the stored result at the redelivery, and no second call is made', async () => {
    const results: unknown[] = [];
    for (let delivery = 1; delivery <= 3; delivery++) {
      const done = processed(async effect => {
        results.push(await charge(effect));
        if (delivery < 3) throw new Error('after the call');
      });
      if (delivery < 3) await expect(done).rejects.toThrow('after the call');
      else expect((await done).status).toBe('processed');
    }
    expect(results).toEqual([{ charge: 'ch_1' }, { charge: 'ch_1' }, { charge: 'ch_1' }]);
    expect(provider.keys).toHaveLength(1);
    expect(provider.charged(account)).toBe(500);
  });

  test('C114: a call that fails is made again, with the same key; each step, consumer and message has its own', async () => {
    provider.refuse(503, 2);
    for (let delivery = 1; delivery <= 2; delivery++) await expect(processed(charge)).rejects.toThrow('503');
    await processed(async effect => {
      await charge(effect);
      await effect('mail', ({ key }) => provider.charge(key, fresh('mail'), 1));
    });
    await processed(charge, { id: 'm2' });
    await createInbox({ name: fresh('other'), ...place }).process({ id: 'm1', body: {} }, (_, context) =>
      charge((context as MessageContext).effect),
    );
    const { keys } = provider;
    expect(new Set(keys.slice(0, 3)).size).toBe(1);
    expect(new Set(keys.slice(2)).size).toBe(4);
    expect(provider.charged(account)).toBe(1_500);
  });

  test('C114: an id of any length and script gives a key that every provider takes', async () => {
    for (const id of ['x'.repeat(300), 'two words', 'zwölf €', '🐘'.repeat(90), '\u0001'])
      await processed(charge, { id });
    expect(provider.keys).toHaveLength(5);
    for (const key of provider.keys) expect(key).toMatch(/^[A-Za-z0-9_-]{20,64}$/);
  });

  test('a name that one message uses twice is refused; told apart it is another effect', async () => {
    const twice = processed(async effect => {
      await charge(effect);
      await charge(effect);
    });
    await expect(twice).rejects.toSatisfy(error => isNevertwiceError(error, 'NT_CONFIG'));
    await expect(twice).rejects.toThrow('"charge:2"');
    expect(provider.keys).toHaveLength(1);
  });

  test('nothing that was returned is nothing again, and what JSON cannot keep is refused by name', async () => {
    const seen: unknown[] = [];
    for (const fails of [true, false]) {
      await processed(async effect => {
        seen.push(await effect('nothing', async () => undefined), await effect('null', async () => null));
        if (fails) throw new Error('once more');
      }).catch(() => undefined);
    }
    expect(seen).toEqual([undefined, null, undefined, null]);
    const big = processed(effect => effect('big', async () => ({ sum: 5n })), { id: 'm2' });
    await expect(big).rejects.toThrow(/effect big returned .* "sum" in it is a bigint/);
  });

  test('other arguments for the same step of the same message are refused before any call', async () => {
    const withArgs = (args: unknown) =>
      processed(async effect => {
        await charge(effect, { args });
        throw new Error('after the call');
      });
    await expect(withArgs({ amount: 500 })).rejects.toThrow('after the call');
    await expect(withArgs({ amount: 500 })).rejects.toThrow('after the call');
    const other = await withArgs({ amount: 700 });
    expect(other).toMatchObject({ status: 'dead-lettered', reason: expect.stringContaining('other arguments') });
    expect(provider.keys).toHaveLength(1);
  });

  test('C82: a lost reply: retry calls again with its key, and the provider charges once', async () => {
    const goOn = provider.hold('after');
    const cut = new AbortController();
    const first = processed(effect =>
      effect('charge', ({ key }) => provider.charge(key, account, 500, cut.signal)),
    ).catch(error => error);
    await provider.holding(1);
    cut.abort(new Error('the connection broke'));
    expect(await first).toMatchObject({ message: 'the connection broke' });
    goOn();
    await processed(effect => charge(effect, { onUnknown: 'retry' }));
    expect(new Set(provider.keys).size).toBe(1);
    expect(provider.charged(account)).toBe(500);
  });

  test('C82: hold makes no second call; the message is set aside until a person has decided, either way', async () => {
    const attempt = (fails: boolean, id = 'm1') =>
      processed(
        async effect => {
          const result = await charge(effect, { onUnknown: 'hold' });
          if (fails) throw new Error('the reply was lost');
          return result;
        },
        { id },
      );
    provider.refuse(500, 1);
    await expect(attempt(false)).rejects.toThrow('500');
    const held = await attempt(false);
    expect(held).toMatchObject({ status: 'dead-lettered', reason: expect.stringContaining('nobody knows') });
    const [unknown, ...others] = await place.rows.list({ consumer: name, state: 'unknown' });
    expect(others).toEqual([]);
    expect(unknown).toMatchObject({ consumer: name, messageId: 'm1', name: 'charge', calls: 1 });
    expect(provider.charged(account)).toBe(0);

    expect(await place.rows.decide(unknown!.key, 'not-done')).toBe(true);
    expect(await place.rows.decide(unknown!.key, 'not-done')).toBe(false);
    expect(await attempt(false)).toMatchObject({ status: 'processed', result: { charge: 'ch_1' } });
    expect(provider.charged(account)).toBe(500);

    provider.refuse(500, 1);
    await expect(attempt(false, 'm2')).rejects.toThrow('500');
    expect(await attempt(false, 'm2')).toMatchObject({ status: 'dead-lettered' });
    const [second] = await place.rows.list({ consumer: name, state: 'unknown' });
    expect(await place.rows.decide(second!.key, { result: '{"charge":"found"}' })).toBe(true);
    expect(await attempt(false, 'm2')).toMatchObject({ status: 'processed', result: { charge: 'found' } });
    expect(provider.charged(account)).toBe(500);
  });

  test('what certainly did not happen is called again, also with hold; a Reject in the call sets the message aside', async () => {
    let calls = 0;
    const attempt = (error: unknown) =>
      processed(effect =>
        effect(
          'charge',
          async () => {
            calls++;
            if (error !== undefined) throw error;
            return calls;
          },
          { onUnknown: 'hold' },
        ),
      );
    await expect(attempt(new NotDone(new Error('429')))).rejects.toThrow('429');
    expect(await attempt(new Reject('card declined'))).toMatchObject({
      status: 'dead-lettered',
      reason: 'card declined',
    });
    expect(await attempt(undefined)).toMatchObject({ status: 'processed', result: 3 });
  });

  test('mayRepeat calls a provider that knows no keys again, and each repetition is counted', async () => {
    const forgetful = await payments({ honours: false });
    try {
      const source = memorySource([{ id: 'm1', body: {} }]);
      let deliveries = 0;
      const consumer = createConsumer({
        name,
        ...place,
        source,
        retries: { minMs: 1, maxMs: 2 },
        handle: async (_, context) => {
          const fails = ++deliveries === 1;
          await context.effect(
            'mail',
            async ({ key }) => {
              const result = await forgetful.charge(key, account, 1);
              if (fails) throw new Error('the reply was lost');
              return result;
            },
            { onUnknown: 'mayRepeat' },
          );
        },
      });
      expect(await consumer.run()).toMatchObject({ processed: 1, failed: 1, repeatedEffects: 1 });
      expect(forgetful.charged(account)).toBe(2);
    } finally {
      await forgetful.close();
    }
  });

  test('a handler cannot swallow that its call is in doubt, nor forget to wait for it', async () => {
    provider.refuse(500, 1);
    await expect(processed(effect => charge(effect, { onUnknown: 'hold' }))).rejects.toThrow('500');
    const swallowed = await processed(effect => charge(effect, { onUnknown: 'hold' }).catch(() => 'went on'));
    expect(swallowed).toMatchObject({ status: 'dead-lettered' });
    const goOn = provider.hold('before');
    const forgotten = processed(
      async effect => {
        charge(effect).catch(() => undefined);
      },
      { id: 'm2' },
    );
    await provider.holding(1);
    goOn();
    expect(await forgotten).toMatchObject({ status: 'processed' });
    expect(provider.charged(account)).toBe(500);
    expect(await place.rows.list({ consumer: name, state: 'done' })).toHaveLength(1);
  });

  test('a call that still runs elsewhere is busy, for as long as it takes: never unknown, never a second call', async () => {
    const goOn = provider.hold('before');
    let cutOff = false;
    // Its handler is cut off and its transaction rolled back, while its call goes on.
    const zombie = processed(
      effect =>
        effect('charge', async ({ key }) => {
          const result = await provider.charge(key, account, 500);
          cutOff = true;
          return result;
        }),
      {},
      { timeoutMs: 300, leaseMs: 400 },
    ).catch(error => error);
    await provider.holding(1);
    expect(await zombie).toMatchObject({ code: 'NT_HANDLER_TIMEOUT' });
    const other = inbox({ leaseMs: 400, busyWaitMs: 700 }, place.another());
    const copy = () =>
      other.process({ id: 'm1', body: {} }, (_, context) => charge((context as MessageContext).effect));
    // Longer than the lease, which is renewed.
    await expect(copy()).rejects.toSatisfy(error => isNevertwiceError(error, 'NT_BUSY'));
    goOn();
    await until('the call has ended', () => cutOff);
    expect(await copy()).toMatchObject({ status: 'processed', result: { charge: 'ch_1' } });
    expect(provider.keys).toHaveLength(1);
  });

  test('C82, C98: a held message is sent through again once a person has decided; changed by hand, it is another call', async () => {
    const consumer = createConsumer({
      name,
      ...place,
      retries: { attempts: 2, minMs: 1, maxMs: 2 },
      handle: (message, context) =>
        context.effect(
          'charge',
          ({ key }) => provider.charge(key, account, (message.body as { amount: number }).amount),
          {
            args: message.body,
            onUnknown: 'hold',
          },
        ),
    });
    provider.refuse(500, 2);
    const messages = ['m1', 'm2'].map(id => ({ id, body: { amount: 500 } }));
    expect(await consumer.run({ source: memorySource(messages, { partitions: 1 }) })).toMatchObject({ deadLetters: 2 });
    expect(await consumer.redrive()).toMatchObject({ processed: 0, failed: 2 });
    expect(provider.charged(account)).toBe(0);

    for (const { key } of await place.rows.list({ consumer: name, state: 'unknown' }))
      await place.rows.decide(key, 'not-done');
    const [one] = await place.store.letters!.list(name, {}, { limit: 10 });
    expect(await consumer.redrive({ filter: { ids: [one!.id] }, edit: { body: '{"amount":700}' } })).toMatchObject({
      processed: 1,
    });
    expect(await consumer.redrive()).toMatchObject({ processed: 1, failed: 0 });
    expect(provider.charged(account)).toBe(1_200);
    // Two were refused; the third is another message to the provider; the fourth is the second again.
    const [first, second, third, fourth] = provider.keys;
    expect(new Set([first, second, third]).size).toBe(3);
    expect([first, second]).toContain(fourth);
  });

  test('two copies at once make one call', async () => {
    const inboxes = [inbox(), inbox({}, place.another())];
    const outcomes = await Promise.all(
      inboxes.map(one =>
        one.process({ id: 'm1', body: {} }, (_, context) => charge((context as MessageContext).effect)),
      ),
    );
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['duplicate', 'processed']);
    expect(provider.keys).toHaveLength(1);
  });

  test('a consumer with effects has one message in a transaction, and its points tell of the call', async () => {
    const source = memorySource(
      [
        { id: 'm1', body: {} },
        { id: 'm2', body: {} },
      ],
      { partitions: 1 },
    );
    const steps: string[] = [];
    const points: Points = {
      reach: ({ step, edge, ids }) => {
        if (step === 'handle' || step === 'effect') steps.push(`${step} ${edge} ${ids}`);
      },
    };
    const consumer = createConsumer({ name, ...place, source, handle: (_, context) => charge(context.effect) });
    expect(await consumer.run({ points })).toMatchObject({ processed: 2 });
    expect(provider.keys).toHaveLength(2);
    if (place.store.promise === 'exactly-once') {
      expect(steps.slice(0, 4)).toEqual(['handle before m1', 'effect before m1', 'effect after m1', 'handle after m1']);
      expect(steps.slice(4, 6)).toEqual(['handle before m2', 'effect before m2']);
    }
  });
});

describe('what cannot be', () => {
  test('without the option, and in a set, effect says what is missing', async () => {
    const store = memoryStore();
    const inbox = createInbox({ name: 'pay', store });
    const call = inbox.process({ id: 'm1', body: {} }, (_, context) => context.effect('x', async () => 1));
    await expect(call).rejects.toThrow(/needs effects: true/);
    expect(() =>
      createConsumer({ name: 'pay', store, effects: sqliteStore(':memory:'), handleBatch: () => undefined }),
    ).toThrow(/effects are for handle/);
  });

  test('the same SQLite file, and a lease store, cannot be their own ledger', () => {
    const sqlite = sqliteStore(':memory:');
    expect(() => createInbox({ name: 'pay', store: sqlite, effects: true })).toThrow(/a store of their own/);
    expect(() => createInbox({ name: 'pay', store: memoryStore(), effects: true })).toThrow(
      /needs a transactional store/,
    );
  });
});

test('C21: lanes that take a second connection of the pool for the ledger are counted with it', async () => {
  const warnings: string[] = [];
  const listen = (warning: Error) => void warnings.push(warning.message);
  process.on('warning', listen);
  const place = onExecutor();
  try {
    const source = memorySource([]);
    const handle = () => undefined;
    const consumer = createConsumer({ name: fresh('pay'), ...place, concurrency: 3, source, handle });
    await consumer.run();
    await until('the warning is there', () => warnings.some(text => text.includes("raise the pool's max to 7")));
  } finally {
    process.off('warning', listen);
    await place.close();
  }
});
