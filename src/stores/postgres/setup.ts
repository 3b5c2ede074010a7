import { classifyFailure, failureCode } from '../../core/failures.ts';
import { NevertwiceError } from '../../errors.ts';
import type { ConsumerRegistration } from '../../ports/store.ts';
import { assertNoCache, assertShape, cacheQuery, presenceQuery, shapeQuery } from './check.ts';
import type { Driver, OpenTransaction } from './driver.ts';
import { createHistory, createSchema, type MigrationRow, pendingMigrations } from './migrations.ts';
import type { Statement } from './statements.ts';
import type { Tables } from './tables.ts';

const plain = (text: string, values: Statement['values'] = []): Statement => ({ text, name: '', values });

/** Applies what is missing, one process at a time. Returns the versions applied. */
export async function migrate<Tx>(driver: Driver<Tx>, t: Tables): Promise<readonly number[]> {
  if ((await missing(driver, t)).length === 0) return [];
  return exclusive(driver, `nevertwice ${t.schema}`, async open => {
    // IF NOT EXISTS asks for the right to create schemas even where there is nothing to create.
    const [schema] = await open.query(plain('SELECT oid FROM pg_namespace WHERE nspname = $1', [t.schema]));
    if (schema === undefined) await run(open, createSchema(t));
    await run(open, createHistory(t));
    const pending = pendingMigrations(await history(s => open.query(s), t), `schema ${t.quotedSchema}`);
    // IF NOT EXISTS would pass over a table of somebody else's, and the history would say that it is ours.
    const there = pending.some(migration => migration.version === 1) ? await open.query(shapeQuery(t)) : [];
    if (there.length > 0) assertShape(there, [], t);
    for (const migration of pending) {
      for (const text of migration.statements(t)) await run(open, text);
      await open.query(
        plain(`INSERT INTO ${t.quoted.migrations} (version, name, needs) VALUES ($1::int, $2, $3::int)`, [
          migration.version,
          migration.name,
          migration.needs,
        ]),
      );
    }
    return pending.map(m => m.version);
  });
}

/** A transaction that waits until every other one under the same `lock` has ended, and sees what they did. */
export function exclusive<Tx, R>(
  driver: Driver<Tx>,
  lock: string,
  work: (open: OpenTransaction<Tx>) => Promise<R>,
): Promise<R> {
  return driver.transaction({ overlap: false, first: undefined }, async open => {
    // Above it the wait for the lock would already have a snapshot, in which the others' tables are missing.
    await open.query(plain('SET TRANSACTION ISOLATION LEVEL READ COMMITTED'));
    // Transaction-level, so that it also works behind a transaction pooler and is gone when this process dies.
    await open.query(plain('SELECT pg_advisory_xact_lock(hashtextextended($1, 7))', [lock]));
    return work(open);
  });
}

/** Versions that `migrate` would apply, without changing anything. */
export async function missing<Tx>(driver: Driver<Tx>, t: Tables): Promise<readonly number[]> {
  return pendingMigrations(await history(s => driver.query(s), t), `schema ${t.quotedSchema}`).map(m => m.version);
}

async function history(
  query: (s: Statement) => Promise<readonly Record<string, unknown>[]>,
  t: Tables,
): Promise<readonly MigrationRow[]> {
  const rows = await allowed('read the tables; grant it USAGE on the schema and the rights on its tables', async () => {
    const [there] = await query(plain('SELECT to_regclass($1) IS NOT NULL AS there', [t.quoted.migrations]));
    if (there?.there !== true) return [];
    return query(plain(`SELECT version, needs FROM ${t.quoted.migrations} ORDER BY version`));
  });
  return rows.map(row => ({ version: Number(row.version), needs: Number(row.needs) }));
}

async function run<Tx>(open: OpenTransaction<Tx>, text: string): Promise<void> {
  const fix = 'run nevertwice migrate as an owner, or give its SQL (nevertwice migrate --print) to one';
  await allowed(`create the tables; ${fix}`, () => open.query(plain(text)));
}

async function allowed<R>(what: string, work: () => Promise<R>): Promise<R> {
  try {
    return await work();
  } catch (error) {
    if (failureCode(error) !== '42501') throw error;
    throw new NevertwiceError('NT_SCHEMA', `this role may not ${what} (42501)`, { cause: error });
  }
}

/** Checks that the tables are there and fit; a start against unfit ones is refused by name. */
export async function check<Tx>(driver: Driver<Tx>, t: Tables): Promise<void> {
  const versions = await missing(driver, t);
  if (versions.length > 0) {
    throw new NevertwiceError(
      'NT_SCHEMA',
      `schema ${t.quotedSchema} lacks version ${versions.join(', ')}; run nevertwice migrate`,
    );
  }
  assertShape(await driver.query(shapeQuery(t)), await driver.query(presenceQuery(t)), t);
  assertNoCache(await driver.query(cacheQuery(t)), t);
}

/** The consumer's small integer, made at its first start; refuses a start with another way of making ids. */
export async function register<Tx>(driver: Driver<Tx>, t: Tables, consumer: ConsumerRegistration): Promise<number> {
  const select = plain(`SELECT id, signature FROM ${t.quoted.consumers} WHERE name = $1`, [consumer.name]);
  const insert = plain(
    `INSERT INTO ${t.quoted.consumers} (name, signature) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING id, signature`,
    [consumer.name, consumer.signature],
  );
  // Above READ COMMITTED an executor's insert fails where another process has just made the row: then it is there.
  const made = () =>
    driver.query(insert).catch(error => (classifyFailure(error) === 'transient' ? [] : Promise.reject(error)));
  const rows = [...(await driver.query(select))];
  if (rows.length === 0) rows.push(...(await made()));
  if (rows.length === 0) rows.push(...(await driver.query(select)));
  const [row] = rows;
  if (row?.signature !== consumer.signature) {
    throw new NevertwiceError(
      'NT_CONFIG',
      `consumer ${JSON.stringify(consumer.name)} made its ids with ${row?.signature} and now starts with ${consumer.signature}: everything in flight would be done twice; keep the identity or use a new consumer name`,
    );
  }
  return Number(row.id);
}
