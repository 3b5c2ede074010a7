import { NevertwiceError } from '../../errors.ts';
import type { Row } from './driver.ts';
import type { Statement } from './statements.ts';
import type { Tables } from './tables.ts';

const WANTED: Readonly<Record<string, string>> = { consumer: 'int4', key: 'bytea', at: 'timestamptz', fp: 'bytea' };

/** One row per column of the inbox, each with whether a usable unique index over exactly (consumer, key) exists. */
export function shapeQuery(t: Tables): Statement {
  return {
    name: '',
    text: `SELECT a.attname AS column, ty.typname AS type, EXISTS (
  SELECT FROM pg_index i
  WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indnkeyatts = 2
    AND (SELECT array_agg(k.attname::text ORDER BY k.attname) FROM pg_attribute k WHERE k.attrelid = c.oid AND k.attnum = ANY (i.indkey))
        = ARRAY['consumer', 'key']) AS keyed
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type ty ON ty.oid = a.atttypid
WHERE n.nspname = $1 AND c.relname = $2`,
    values: [t.schema, t.bare.inbox],
  };
}

/** Whether each of the other tables is there: they are first needed at an odd moment, such as the first dead letter. */
export function presenceQuery(t: Tables): Statement {
  const { consumers, deadLetters, positions, lanes, outbox, relays, effects, attempts, laneOwners } = t.quoted;
  return {
    name: '',
    text: 'SELECT n.name FROM (VALUES ($1), ($2), ($3), ($4), ($5), ($6), ($7), ($8), ($9)) AS n(name) WHERE to_regclass(n.name) IS NULL',
    values: [consumers, deadLetters, positions, lanes, outbox, relays, effects, attempts, laneOwners],
  };
}

/** How many numbers a session takes ahead from the outbox's sequence. */
export function cacheQuery(t: Tables): Statement {
  return {
    name: '',
    text: `SELECT seqcache::text AS cache FROM pg_sequence WHERE seqrelid = pg_get_serial_sequence($1, 'seq')::regclass`,
    values: [t.quoted.outbox],
  };
}

/** Throws NT_SCHEMA where somebody has given the sequence a cache, to make it faster: order per key would be gone. */
export function assertNoCache(rows: readonly Row[], t: Tables): void {
  const cache = rows[0]?.cache;
  if (cache === undefined || cache === '1') return;
  throw new NevertwiceError(
    'NT_SCHEMA',
    `${t.quoted.outbox}.seq takes ${cache} numbers ahead, so a later commit of a key could get a lower one; ALTER TABLE ${t.quoted.outbox} ALTER COLUMN seq SET CACHE 1`,
  );
}

/** Throws NT_SCHEMA when the inbox could not keep its promise: a wrong column type merges ids, a missing key doubles them. */
export function assertShape(rows: readonly Row[], missing: readonly Row[], t: Tables): void {
  const table = t.quoted.inbox;
  if (missing[0] !== undefined) {
    throw new NevertwiceError(
      'NT_SCHEMA',
      `${missing[0].name} does not exist although the history of migrations has it; restore it, or delete the history's rows and run nevertwice migrate`,
    );
  }
  if (rows.length === 0)
    throw new NevertwiceError(
      'NT_SCHEMA',
      `${table} does not exist although the history of migrations has it; restore it: without its rows everything in flight is done again`,
    );
  const found = new Map(rows.map(row => [row.column as string, row.type as string]));
  for (const [column, wanted] of Object.entries(WANTED)) {
    const type = found.get(column);
    if (type !== wanted) {
      throw new NevertwiceError(
        'NT_SCHEMA',
        `${table}.${column} is ${type ?? 'missing'}, needed ${wanted}; correct it, or give nevertwice a schema of its own (option schema)`,
      );
    }
  }
  if (rows[0]!.keyed !== true) {
    throw new NevertwiceError(
      'NT_SCHEMA',
      `${table} has no valid unique index over (consumer, key), so duplicates would pass; recreate its primary key`,
    );
  }
}
