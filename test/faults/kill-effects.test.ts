import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { EffectOptions, Summary } from '../../src/index.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { temporaryPath } from '../stores/local-support.ts';
import { type Payments, payments } from '../support/payments.ts';
import { freshDatabase } from '../support/postgres.ts';

interface Target {
  /** For the child. */
  readonly target: string;
  balance(): Promise<number>;
  drop(): Promise<void>;
}

async function onPostgres(): Promise<Target> {
  const database = await freshDatabase();
  const pool = database.pool();
  await pool.query(
    `CREATE TABLE wallet (account text PRIMARY KEY, balance int NOT NULL); INSERT INTO wallet VALUES ('alice', 0)`,
  );
  await postgresStore(pool).migrate();
  return {
    target: database.url,
    balance: async () => (await pool.query(`SELECT balance FROM wallet`)).rows[0].balance,
    drop: () => database.drop(),
  };
}

async function onSqlite(): Promise<Target> {
  const { path, remove } = temporaryPath();
  const store = sqliteStore(path);
  await store.transaction(async (_, sql) => {
    await sql`CREATE TABLE wallet (account text PRIMARY KEY, balance int NOT NULL)`;
    await sql`INSERT INTO wallet VALUES ('alice', 0)`;
  });
  return {
    target: path,
    balance: () =>
      store.transaction(async (_, sql) =>
        Number((await sql<{ balance: bigint }>`SELECT balance FROM wallet`)[0]!.balance),
      ),
    async drop() {
      await store.close();
      remove();
    },
  };
}

const child = fileURLToPath(new URL('effects-child.ts', import.meta.url));

/** Undefined when it died at its point. */
async function run(
  { target }: Target,
  provider: Payments,
  onUnknown: EffectOptions['onUnknown'],
  ...point: readonly string[]
): Promise<Summary | undefined> {
  const running = spawn(process.execPath, [child, target, provider.url, onUnknown!, ...point], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  running.stdout.on('data', data => {
    said += data;
  });
  const [code, signal] = await once(running, 'close');
  if (point.length > 0) expect([code, signal]).toEqual([null, 'SIGKILL']);
  else expect(code).toBe(0);
  return point.length > 0 ? undefined : (JSON.parse(said) as Summary);
}

const POINTS = [
  ['claim', 'after'],
  ['handle', 'before'],
  ['effect', 'before'],
  ['effect', 'after'],
  ['handle', 'after'],
  ['record', 'before'],
  ['record', 'after'],
  ['settle', 'before'],
] as const;

/** Where a call is on its way, or was made and its transaction is not over. */
const IN_DOUBT = POINTS.filter(([step, edge]) => step === 'effect' || (step === 'record' && edge === 'before'));

describe.each([
  { name: 'PostgreSQL', create: onPostgres, points: POINTS },
  { name: 'SQLite', create: onSqlite, points: IN_DOUBT },
])('SIGKILL of a consumer with an effect: $name', ({ create, points }) => {
  let target: Target;
  let provider: Payments;
  beforeEach(async () => {
    [target, provider] = [await create(), await payments({ honours: true })];
  });
  afterEach(async () => {
    await provider.close();
    await target.drop();
  });

  test.each(points)('C82, C114: %s %s; with retry it is charged once and booked once', async (step, edge) => {
    await run(target, provider, 'retry', step, edge);
    const summary = (await run(target, provider, 'retry'))!;
    expect(summary.processed + summary.duplicates).toBe(1);
    expect(new Set(provider.keys).size).toBe(1);
    expect(provider.charged('alice')).toBe(500);
    expect(await target.balance()).toBe(500);
  });

  test.each(IN_DOUBT)('C82: %s %s; with hold there is never a second call', async (step, edge) => {
    await run(target, provider, 'hold', step, edge);
    const summary = (await run(target, provider, 'hold'))!;
    const unknown = step === 'effect';
    expect(summary.deadLetters).toBe(unknown ? 1 : 0);
    // It may have happened or not, and only a person can tell; either way nothing was called twice.
    expect(provider.keys.length).toBe(step === 'effect' && edge === 'before' ? 0 : 1);
    expect(await target.balance()).toBe(unknown ? 0 : 500);
  });
});
