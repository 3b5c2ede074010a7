import postgres from 'postgres';
import { describe, expect, test } from 'vitest';
import { createConsumer, createInbox, type OutboxMessage, Reject, type TransactionalStore } from '../../src/index.ts';
import { memoryBroker } from '../../src/memory.ts';
import { postgresJs, postgresStore } from '../../src/stores/postgres/index.ts';
import { freshDatabase } from '../support/postgres.ts';
import { until } from '../support/until.ts';
import { backends, credit, onPostgres, type WalletStore } from '../support/wallet.ts';
import { values, waiting } from './support.ts';

interface Order {
  readonly n: number;
  readonly fails?: boolean;
}

const message = (n: number, more: Partial<OutboxMessage> = {}): OutboxMessage => ({
  topic: 'orders',
  key: 'k',
  payload: n,
  ...more,
});

/** Consumes all of `bodies` in one batch. */
async function consume(
  w: Pick<WalletStore, 'store'>,
  bodies: readonly Order[],
  options: Record<string, unknown>,
): Promise<void> {
  const broker = memoryBroker({ topic: 'in', partitions: 1 });
  for (const body of bodies) broker.send({ headers: { 'message-id': `m${body.n}` }, body });
  const consumer = createConsumer({
    name: 'shop',
    store: w.store,
    retries: { minMs: 1, maxMs: 2 },
    ...options,
  } as never);
  const run = consumer.run({ source: broker.source({ group: 'g' }) });
  await Promise.race([broker.drained('g'), run]);
  await consumer.stop();
  await run;
}

describe.each(backends)('$name', ({ create }) => {
  async function on<R>(work: (w: WalletStore) => Promise<R>): Promise<R> {
    const w = await create();
    try {
      return await work(w);
    } finally {
      await w.drop();
    }
  }

  test('what a handler adds is there exactly when its effect is, and a try that fails leaves none', () =>
    on(async w => {
      const inbox = createInbox({ name: 'shop', store: w.store });
      const handle = (fails: boolean) => async (_: unknown, context: any) => {
        await credit(context, 1);
        await context.outbox.add(message(1));
        if (fails) throw new Error('on purpose');
      };
      await expect(inbox.process({ id: 'm1', body: {} }, handle(true))).rejects.toThrow('on purpose');
      expect([await w.balance(), await waiting(w.store)]).toEqual([0, []]);
      await inbox.process({ id: 'm1', body: {} }, handle(false));
      expect([await w.balance(), values(await waiting(w.store))]).toEqual([1, [1]]);
    }));

  test('derived ids are the same at every try, and differ by message, consumer, topic and number', () =>
    on(async w => {
      const ids = async (consumer: string, id: string, topics: readonly string[]) => {
        const seen: string[] = [];
        const inbox = createInbox({ name: consumer, store: w.store });
        await inbox
          .process({ id, body: {} }, async (_, { outbox }) => {
            for (const topic of topics) await outbox.add({ topic, payload: 1 });
            throw new Error('again');
          })
          .catch(() => undefined);
        await inbox.process({ id, body: {} }, async (_, { outbox }) => {
          for (const topic of topics) await outbox.add({ topic, payload: 1 });
        });
        for (const row of await waiting(w.store)) seen.push(row.id);
        await w.store.outbox.remove(await waiting(w.store));
        return seen.sort();
      };
      const first = await ids('shop', 'm1', ['a', 'a', 'b']);
      expect(new Set(first).size).toBe(3);
      for (const id of first)
        expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      // A handler that comes to add to a topic before keeps the ids of the others.
      const again = createInbox({ name: 'shop', store: w.store });
      await w.forgetIds();
      await again.process({ id: 'm1', body: {} }, async (_, { outbox }) => {
        for (const topic of ['c', 'a', 'a', 'b']) await outbox.add({ topic, payload: 1 });
      });
      const withMore = (await waiting(w.store)).filter(row => row.topic !== 'c').map(row => row.id);
      expect(withMore.sort()).toEqual(first);
      await w.store.outbox.remove(await waiting(w.store));
      expect(await ids('shop', 'm2', ['a', 'a', 'b'])).not.toEqual(first);
      expect(await ids('other', 'm1', ['a', 'a', 'b'])).not.toEqual(first);
    }));

  test('a batch: what a failing member added is not there, its neighbours’ is once and in order', () =>
    on(async w => {
      const bodies = Array.from({ length: 12 }, (_, n) => ({ n, fails: n === 5 }));
      await consume(w, bodies, {
        handle: async ({ body }: { body: Order }, context: any) => {
          await credit(context, 1);
          await context.outbox.add(message(body.n));
          if (body.fails) throw new Error('on purpose');
        },
      });
      expect(await w.balance()).toBe(11);
      expect(values(await waiting(w.store))).toEqual([0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11]);
    }));

  test('a set adds by message, and what it added for one that it rejects is not there', () =>
    on(async w => {
      const bodies = Array.from({ length: 6 }, (_, n) => ({ n }));
      await consume(w, bodies, {
        handleBatch: async (messages: readonly any[], context: any) => {
          await credit(context, messages.length);
          for (const one of messages) {
            await context.for(one).outbox.add(message(one.body.n));
            await context.for(one).outbox.add(message(one.body.n + 100, { topic: 'others' }));
            if (one.body.n === 2) context.reject(one, 'no');
          }
        },
      });
      const rows = await waiting(w.store);
      expect(values(rows.filter(row => row.topic === 'orders'))).toEqual([0, 1, 3, 4, 5]);
      expect(new Set(rows.map(row => row.id)).size).toBe(10);
      expect((await w.deadLetters()).map(letter => letter.message_id)).toEqual(['m2']);
    }));

  test('a savepoint that is undone takes along what was added in it, and nothing else; order stays', () =>
    on(async w => {
      const inbox = createInbox({ name: 'shop', store: w.store });
      await inbox.process({ id: 'm1', body: {} }, async (_, { outbox, savepoint, sql }) => {
        await outbox.add(message(1));
        await savepoint(async () => {
          await outbox.add(message(2));
          throw new Error('undone');
        }).catch(() => undefined);
        await savepoint(async () => {
          await outbox.add(message(3));
        });
        await outbox.add(message(4));
        await sql`SAVEPOINT mine`;
        await outbox.add(message(5));
        await sql`ROLLBACK TO SAVEPOINT mine`;
        await outbox.add(message(6));
      });
      expect(values(await waiting(w.store))).toEqual([1, 3, 4, 6]);
    }));

  test('a clash of ids ends no transaction: the first stays, or the second is refused', () =>
    on(async w => {
      const inbox = createInbox({ name: 'shop', store: w.store });
      const refusals: unknown[] = [];
      const handler = (n: number) => async (_: unknown, context: any) => {
        await credit(context, 1);
        await context.outbox.add(message(n, { id: 'same' }));
        await context.outbox
          .add(message(n, { id: 'same', onClash: 'refuse' }))
          .catch((e: any) => refusals.push(e.code));
        await context.outbox.add(message(n, { id: `own ${n}` }));
      };
      await inbox.process({ id: 'm1', body: {} }, handler(1));
      await inbox.process({ id: 'm2', body: {} }, handler(2));
      expect(await w.balance()).toBe(2);
      expect((await waiting(w.store)).map(row => [row.id, ...values([row])])).toEqual([
        ['same', 1],
        ['own 1', 1],
        ['own 2', 2],
      ]);
      expect(refusals).toEqual(['NT_OUTBOX_CLASH', 'NT_OUTBOX_CLASH']);
      await expect(
        inbox.process({ id: 'm3', body: {} }, (_, { outbox }) =>
          outbox.add(message(3, { id: 'same', onClash: 'refuse' })),
        ),
      ).rejects.toMatchObject({ code: 'NT_OUTBOX_CLASH' });
    }));

  test('payloads, keys and headers come out as they went in', () =>
    on(async w => {
      const inbox = createInbox({ name: 'shop', store: w.store });
      const bytes = Uint8Array.from([0, 255, 1, 128, 0]);
      const given: unknown[] = [
        '',
        'a\0b',
        '😀',
        0,
        -1.5,
        true,
        null,
        [],
        {},
        { a: { 'b\0': ['\ud800'] } },
        new Date(0),
      ];
      await inbox.process({ id: 'm1', body: {} }, async (_, { outbox }) => {
        for (const payload of given) await outbox.add(message(0, { payload }));
        await outbox.add(
          message(0, { payload: bytes, key: 'ключ, "\'\\$1\n', headers: { a: 'b\0c', ü: 'ß😀', __proto__x: '' } }),
        );
        await outbox.add({ topic: 't', payload: new Uint8Array() });
      });
      const rows = await waiting(w.store);
      expect(values(rows.slice(0, given.length))).toEqual(
        given.map(one => (one instanceof Date ? one.toISOString() : one)),
      );
      const [last, empty] = rows.slice(given.length);
      expect([...last!.payload, last!.json, last!.key]).toEqual([...bytes, false, 'ключ, "\'\\$1\n']);
      expect(JSON.parse(last!.headers!)).toEqual({ a: 'b\0c', ü: 'ß😀', __proto__x: '' });
      expect([empty!.payload.length, empty!.key, empty!.headers]).toEqual([0, undefined, undefined]);
    }));

  const cyclic: { self?: unknown } = {};
  cyclic.self = cyclic;
  test.each([
    ['payload.a[1]', { payload: { a: [1, 2n] } }],
    ['payload', { payload: undefined }],
    ['payload.x', { payload: { x: Number.NaN } }],
    ['payload[0]', { payload: [undefined] }],
    ['payload.m', { payload: { m: new Map() } }],
    ['payload.b', { payload: { b: Buffer.from('a') } }],
    ['payload.self.self.self', { payload: cyclic }],
    ['topic', { topic: '' }],
    ['topic', { topic: 'x'.repeat(256) }],
    ['key', { key: 'a\0' }],
    ['key', { key: '\ud800' }],
    ['id', { id: 'é'.repeat(128) }],
    ['headers["n"]', { headers: { n: 1 } }],
    ['headers["Message-ID"]', { headers: { 'Message-ID': 'x' } }],
  ])('C33: what cannot be stored without loss is refused by name: %s', (field, wrong) =>
    on(async w => {
      const inbox = createInbox({ name: 'shop', store: w.store });
      const adding = inbox.process({ id: 'm1', body: {} }, async (_, context) => {
        await credit(context, 1);
        await context.outbox.add(message(1, wrong as never));
      });
      await expect(adding).rejects.toMatchObject({
        code: 'NT_BAD_MESSAGE',
        message: expect.stringContaining(`outbox: ${field} `),
      });
      // Also when nobody looks.
      const forgotten = inbox.process({ id: 'm2', body: {} }, async (_, context) => {
        await credit(context, 1);
        void context.outbox.add(message(1, wrong as never));
      });
      await expect(forgotten).rejects.toMatchObject({ code: 'NT_TX_ABORTED' });
      expect([await w.balance(), await waiting(w.store)]).toEqual([0, []]);
    }),
  );

  test('after the end of its transaction nothing can be added', () =>
    on(async w => {
      const inbox = createInbox({ name: 'shop', store: w.store });
      let kept: { add(m: OutboxMessage): Promise<void> } | undefined;
      await inbox.process({ id: 'm1', body: {} }, async (_, { outbox }) => {
        kept = outbox;
      });
      await expect(kept!.add(message(1))).rejects.toMatchObject({ code: 'NT_TX_CLOSED' });
    }));

  test('a rejected message leaves nothing in the outbox', () =>
    on(async w => {
      await consume(w, [{ n: 1 }, { n: 2 }], {
        handle: async ({ body }: { body: Order }, { outbox }: any) => {
          await outbox.add(message(body.n));
          if (body.n === 1) throw new Reject('no');
        },
      });
      expect(values(await waiting(w.store))).toEqual([2]);
    }));
});

describe('PostgreSQL', () => {
  test('handlers that overlap add in the order of each key', async () => {
    const w = await onPostgres();
    const broker = memoryBroker({ topic: 'in', partitions: 1 });
    for (let n = 0; n < 40; n++) broker.send({ headers: { 'message-id': `m${n}` }, key: `k${n % 4}`, body: { n } });
    const consumer = createConsumer<any, any>({
      name: 'shop',
      store: w.store,
      overlap: 'by-key',
      handle: async ({ body, key }: any, context: any) => {
        await credit(context, 1);
        await context.outbox.add(message(body.n, { key }));
      },
    } as never);
    const run = consumer.run({ source: broker.source({ group: 'g' }) });
    await broker.drained('g');
    await consumer.stop();
    await run;
    const rows = await waiting(w.store);
    expect(rows).toHaveLength(40);
    for (const ofKey of Map.groupBy(rows, row => row.key).values()) {
      const numbers = values(ofKey) as number[];
      expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
    }
    await w.drop();
  });

  test('a handler that waits for the lock of a key is cut off in its time', async () => {
    const w = await onPostgres();
    const inbox = createInbox({ name: 'shop', store: w.store, timeoutMs: 300 });
    const key = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    const other = createInbox({ name: 'other', store: w.store }).process({ id: 'm1', body: {} }, async (_, context) => {
      await context.outbox.add(message(1, { onClash: 'refuse' }));
      held.resolve();
      await key.promise;
    });
    await held.promise;
    const waits = inbox.process({ id: 'm2', body: {} }, async (_, context) => {
      await context.outbox.add(message(2, { onClash: 'refuse' }));
    });
    await expect(waits).rejects.toMatchObject({ code: 'NT_HANDLER_TIMEOUT' });
    key.resolve();
    await other;
    expect(values(await waiting(w.store))).toEqual([1]);
    await w.drop();
  });

  test('postgres.js: as with pg, also in its own savepoints', async () => {
    const database = await freshDatabase();
    const sql = postgres(database.url, { max: 4, onnotice: () => undefined });
    const store = postgresStore(postgresJs(sql));
    const inbox = createInbox({ name: 'shop', store: store as TransactionalStore<any> });
    await inbox.process({ id: 'm1', body: {} }, async (_, { outbox, tx, savepoint }) => {
      await outbox.add(message(1));
      await tx
        .savepoint(async (inner: any) => {
          await inner`SELECT 1`;
          await outbox.add(message(2));
          throw new Error('undone');
        })
        .catch(() => undefined);
      await savepoint(async () => {
        await outbox.add(message(3));
        throw new Error('undone');
      }).catch(() => undefined);
      await outbox.add(message(4));
    });
    await inbox.process({ id: 'm2', body: {} }, async (_, { outbox }) => outbox.add(message(5)));
    expect(values(await waiting(store as TransactionalStore<any>))).toEqual([1, 4, 5]);
    await until('signs are given', async () => true);
    await sql.end({ timeout: 1 });
    await database.drop();
  });

  test('an executor that nothing is known of writes each at once', async () => {
    const database = await freshDatabase();
    const sql = postgres(database.url, { max: 4, onnotice: () => undefined });
    const { transaction, query } = postgresJs(sql);
    const store = postgresStore({ transaction, query } as never) as TransactionalStore<any>;
    const inbox = createInbox({ name: 'shop', store });
    await inbox.process({ id: 'm1', body: {} }, async (_, { outbox, tx }) => {
      await outbox.add(message(1));
      await tx
        .savepoint(async () => {
          await outbox.add(message(2));
          throw new Error('undone');
        })
        .catch(() => undefined);
      await outbox.add(message(3));
    });
    expect(values(await waiting(store))).toEqual([1, 3]);
    await sql.end({ timeout: 1 });
    await database.drop();
  });
});
