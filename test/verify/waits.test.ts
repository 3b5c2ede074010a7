import { fileURLToPath } from 'node:url';
import { Pool, type PoolClient } from 'pg';
import { expect, inject, test } from 'vitest';
import { type HandlerFactory, type Report, render, type VerifyOptions, verify } from '../../src/verify/index.ts';

/** One server for all. */
const postgres = () => inject('services').NEVERTWICE_TEST_POSTGRES!;

const payment = {
  message: { id: 'm1', account: 'alice', amount: 5 },
  schema: `CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);
    CREATE TABLE processed (id text PRIMARY KEY)`,
  seed: `INSERT INTO wallet VALUES ('alice', 100)`,
} satisfies Partial<VerifyOptions>;

type Payment = typeof payment.message;

/** A handler that gets one connection, and whose connection ends with an error. */
function onClient(handle: (client: PoolClient, message: Payment) => Promise<void>): HandlerFactory {
  return env => {
    const pool = new Pool({ connectionString: env.DATABASE_URL, max: 1 });
    pool.on('error', () => undefined);
    pool.on('connect', client => client.on('error', () => undefined));
    return {
      async handle(message: Payment) {
        const client = await pool.connect();
        let failed: unknown;
        try {
          await handle(client, message);
        } catch (error) {
          failed = error;
          throw error;
        } finally {
          client.release(failed as Error | undefined);
        }
      },
      close: () => pool.end(),
    };
  };
}

async function inbox(client: PoolClient, { id, account, amount }: Payment): Promise<void> {
  const mark = await client.query('INSERT INTO processed VALUES ($1) ON CONFLICT DO NOTHING', [id]);
  if (mark.rowCount === 1)
    await client.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [amount, account]);
}

function judged(handler: HandlerFactory, more: Partial<VerifyOptions> = {}): Promise<Report> {
  return verify({ ...payment, handler, postgres: postgres(), bounds: { total: 2 }, budgetMs: 100_000, ...more });
}

function told(report: Report): string {
  return render(report, 'terminal', { width: 120, colour: false });
}

const timeout = 120_000;

// A loop that waits for somebody else has no end of its own: each of its rounds was an execution more, and the search never
// came to the next cost. And what was on its way when its consumer died may be what the loop waits for.
test('a handler that asks again and again until the lock is free', { timeout }, async () => {
  const report = await judged(
    onClient(async (client, message) => {
      for (;;) {
        await client.query('BEGIN');
        const { rows } = await client.query('SELECT pg_try_advisory_xact_lock(7) AS mine');
        if (rows[0].mine === true) break;
        await client.query('ROLLBACK');
      }
      await inbox(client, message);
      await client.query('COMMIT');
    }),
  );
  expect(report.verdict, told(report)).toBe('once');
  expect(report.executions).toBeLessThan(1_500);
});

test('a handler whose statements give up waiting, and that tries again', { timeout }, async () => {
  const report = await judged(
    onClient(async (client, message) => {
      for (;;) {
        await client.query("BEGIN; SET LOCAL lock_timeout = '150ms'");
        try {
          await inbox(client, message);
          await client.query('COMMIT');
          return;
        } catch (error) {
          if ((error as { code?: string }).code !== '55P03') throw error;
          await client.query('ROLLBACK');
        }
      }
    }),
    { bounds: { total: 1 } },
  );
  expect(report.verdict, told(report)).toBe('once');
});

// Its connection goes back to the pool in the middle of a transaction: nothing could be put back for the next execution, or
// even read, while it holds its locks.
test('a handler that forgets its COMMIT', { timeout }, async () => {
  const report = await judged(
    onClient(async (client, message) => {
      await client.query('BEGIN');
      await client.query('LOCK TABLE wallet');
      await inbox(client, message);
    }),
    { bounds: { total: 1, crashes: 0, faults: 0 } },
  );
  expect(report.convictions[0]?.verdict, told(report)).toBe('stuck');
});

// The server does not notice the death of a client while it waits for a lock, and nobody may wait for it to notice.
test('a process that ends while what it had sent before still waits for a lock', { timeout }, async () => {
  const report = await verify({
    handler: fileURLToPath(new URL('../../examples/verify/ok-exits-on-lost-connection.ts', import.meta.url)),
    postgres: postgres(),
    bounds: { total: 2, crashes: 0, inFlight: 0, preemptions: 0 },
    budgetMs: 100_000,
  });
  expect(report.verdict, told(report)).toBe('once');
});
