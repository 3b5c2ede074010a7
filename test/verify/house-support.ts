import { Pool } from 'pg';
import postgres from 'postgres';
import type { Sql } from '../../src/index.ts';
import { type Clock, systemClock } from '../../src/ports/clock.ts';
import type { HandlerFactory, VerifyOptions } from '../../src/verify/index.ts';

/** Waits that the library chooses itself show nothing but themselves. */
export const hasty: Clock = {
  ...systemClock,
  sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 1), signal),
  random: () => 0.5,
};

export const payment = {
  message: { id: 'm1', account: 'alice', amount: 5 },
  schema: 'CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL)',
  seed: `INSERT INTO wallet VALUES ('alice', 100)`,
} satisfies Partial<VerifyOptions>;

export type Payment = typeof payment.message;
export const payments: readonly Payment[] = [payment.message, { id: 'm2', account: 'alice', amount: 7 }];

/** As much of the library as a handler needs: this one, or a copy with one line changed. */
export interface Library {
  readonly createInbox: typeof import('../../src/index.ts').createInbox;
  readonly postgresStore: typeof import('../../src/stores/postgres/index.ts').postgresStore;
  readonly postgresJs: typeof import('../../src/stores/postgres/index.ts').postgresJs;
}

export function poolOf(env: Readonly<Record<string, string>>, pipeline: boolean): Pool {
  const pool = new Pool({ connectionString: env.DATABASE_URL, pipeline, max: 3 });
  pool.on('error', () => undefined);
  return pool;
}

export type Client = 'pg' | 'pg, pipelined' | 'postgres.js';

function storeOn({ postgresStore, postgresJs }: Library, client: Client, env: Readonly<Record<string, string>>) {
  if (client === 'postgres.js') {
    const sql = postgres(env.DATABASE_URL!, { max: 3, onnotice: () => undefined });
    return { store: postgresStore(postgresJs(sql)), end: () => sql.end({ timeout: 0 }) };
  }
  const pool = poolOf(env, client === 'pg, pipelined');
  return { store: postgresStore(pool), end: () => pool.end() };
}

/** The wallet of the README, on `createInbox`: one message, or a batch. */
export function wallet(library: Library, client: Client): HandlerFactory {
  return async env => {
    const { store, end } = storeOn(library, client, env);
    const inbox = library.createInbox({ name: 'wallet', store, clock: hasty });
    await inbox.open();
    const pay = async ({ account, amount }: Payment, { sql }: { readonly sql: Sql }) => {
      await sql`UPDATE wallet SET balance = balance + ${amount} WHERE id = ${account}`;
    };
    return {
      handle: async (payment: Payment | readonly Payment[]) => {
        if (!isBatch(payment)) return inbox.process(messageOf(payment), ({ body }, context) => pay(body, context));
        return inbox.processBatch(payment.map(messageOf), async (messages, context) => {
          for (const { body } of messages) await pay(body, context);
        });
      },
      close: end,
    };
  };
}

function isBatch(payment: Payment | readonly Payment[]): payment is readonly Payment[] {
  return Array.isArray(payment);
}

function messageOf(payment: Payment) {
  return { id: payment.id, body: payment };
}
