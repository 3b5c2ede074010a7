import { crc32 } from 'node:zlib';
import { partOf } from '../../../outbox/parts.ts';
import type { OutboxRow } from '../../../ports/outbox.ts';
import { statementName } from '../../sql/template.ts';
import { type Statement, utf8Hex } from '../statements.ts';
import type { Tables } from '../tables.ts';

/**
 * How rows are added: `locks` first, `insert` in the NEXT statement, both as late in the transaction as can be. A number
 * taken before the lock is held, or in the statement that waits for it, may be lower than that of an earlier commit.
 */
export interface AddStatements {
  /** The locks of the rows' keys, in rising order; undefined where no row has a key. Held until the commit is visible. */
  locks(rows: readonly Pick<OutboxRow, 'key' | 'hash'>[]): Statement | undefined;
  /** Returns how many rows it wrote, as `added`; ids that wait already are left out. */
  insert(rows: readonly OutboxRow[]): Statement;
}

/** Lists as comma-separated hex and digits, as everywhere: then clients without a pipeline send all in one text with COMMIT. */
export function addStatements(t: Tables): AddStatements {
  const named = (text: string) => ({ text, name: statementName(text) });

  const locks = named(
    `SELECT pg_advisory_xact_lock(${lockClass(t)}, h) FROM (SELECT DISTINCT x::int AS h FROM unnest(string_to_array($1, ',')) AS x ORDER BY 1) AS z`,
  );

  // The numbers are given in the order of the list. An empty list element is NULL for a key and for headers, and no bytes for
  // a payload.
  const insert = named(`WITH a AS (
  INSERT INTO ${t.quoted.outbox} (hash, part, json, id, topic, key, headers, payload)
  SELECT h::int, p::smallint, j = '1', convert_from(decode(i, 'hex'), 'UTF8'), convert_from(decode(o, 'hex'), 'UTF8'),
         convert_from(decode(k, 'hex'), 'UTF8'), convert_from(decode(e, 'hex'), 'UTF8'), coalesce(decode(b, 'hex'), '')
  FROM unnest(string_to_array($1, ','), string_to_array($2, ','), string_to_array($3, ','), string_to_array($4, ','),
              string_to_array($5, ','), string_to_array($6, ',', ''), string_to_array($7, ',', ''), string_to_array($8, ','))
       WITH ORDINALITY AS u(h, p, j, i, o, k, e, b, n)
  ORDER BY n
  ON CONFLICT (id) DO NOTHING
  RETURNING 1)
SELECT count(*)::int AS added FROM a`);

  return {
    locks: rows => {
      const hashes = new Set<number>();
      for (const { key, hash } of rows) if (key !== undefined) hashes.add(hash);
      return hashes.size === 0 ? undefined : { ...locks, values: [[...hashes].join(',')] };
    },
    insert: rows => ({
      ...insert,
      values: [
        rows.map(row => row.hash).join(','),
        rows.map(row => partOf(row.hash)).join(','),
        rows.map(row => (row.json ? '1' : '0')).join(','),
        rows.map(row => utf8Hex(row.id)).join(','),
        rows.map(row => utf8Hex(row.topic)).join(','),
        optional(rows.map(row => row.key)),
        optional(rows.map(row => row.headers)),
        rows.map(row => Buffer.from(row.payload).toString('hex')).join(','),
      ],
    }),
  };
}

function optional(texts: readonly (string | undefined)[]): string | null {
  return texts.every(text => text === undefined)
    ? null
    : texts.map(text => (text === undefined ? '' : utf8Hex(text))).join(',');
}

/** Two outboxes of one database do not wait for each other. */
export function lockClass(t: Tables): number {
  return crc32(`nevertwice outbox ${t.quoted.outbox}`) & 0x7fff_ffff;
}
