import type { WaitingRow } from '../../../ports/outbox.ts';
import { statementName } from '../../sql/template.ts';
import { type Statement, utf8Hex } from '../statements.ts';
import type { Tables } from '../tables.ts';
import { lockClass } from './add.ts';

/** What relays and operators ask. Values are text and integers alone, as in all of the store's SQL. */
export interface OutboxStatements {
  join(relay: string, leaseMs: number): Statement;
  members(): Statement;
  leave(relay: string): Statement;
  read(parts: readonly number[], held: readonly number[], limit: number): Statement;
  remove(rows: readonly WaitingRow[]): Statement;
  refused(row: WaitingRow, reason: string): Statement;
  lock(hashes: readonly number[]): Statement;
  park(row: WaitingRow): Statement;
  moveBehind(rows: readonly WaitingRow[]): Statement;
  parked(limit: number): Statement;
  /** The hash of a parked row. */
  find(seq: bigint): Statement;
  /** Gives back the row under this number and those of its key. */
  retry(seq: bigint): Statement;
  /** Gives back what waits behind the row under this number. */
  release(seq: bigint): Statement;
  discard(seq: bigint): Statement;
  backlog(): Statement;
}

export function outboxStatements(t: Tables): OutboxStatements {
  const { outbox, relays } = t.quoted;
  const named = (text: string) => ({ text, name: statementName(text) });
  const once = (text: string, values: Statement['values']): Statement => ({ name: '', text, values });

  // Of each part the oldest, by its index; no cursor, since a lower number of another key may be committed later, and no
  // SKIP LOCKED, which takes a later row of a key before an earlier one.
  const read = named(`SELECT o.seq::text AS seq, o.part, o.id, o.topic, o.key, o.headers, o.json, o.hash, o.attempts,
       encode(o.payload, 'base64') AS payload, (extract(epoch FROM o.at) * 1000)::bigint::text AS at,
       EXISTS (SELECT FROM ${outbox} q WHERE q.part < 0 AND q.topic = o.topic AND q.key = o.key) AS behind
FROM unnest(string_to_array($1, ',')::smallint[]) AS p(part)
CROSS JOIN LATERAL (
  SELECT * FROM ${outbox} r WHERE r.part = p.part AND r.hash <> ALL (string_to_array($2, ',')::int[])
  ORDER BY r.seq LIMIT $3::int) AS o
ORDER BY o.seq`);

  const list = `unnest(string_to_array($1, ',')::smallint[], string_to_array($2, ',')::bigint[], string_to_array($3, ',')) AS d(part, seq, id)`;
  const listed = (rows: readonly WaitingRow[]) => [
    rows.map(row => row.part).join(','),
    rows.map(row => row.seq).join(','),
    rows.map(row => utf8Hex(row.id)).join(','),
  ];
  const matches = `o.part = d.part AND o.seq = d.seq AND o.id = convert_from(decode(d.id, 'hex'), 'UTF8')`;
  const remove = named(`DELETE FROM ${outbox} o USING ${list} WHERE ${matches}`);

  const aside = `part = -1 - o.part`;
  const isRow = `o.part = $1::smallint AND o.seq = $2::bigint AND o.id = $3`;
  const sameKey = `q.topic = o.topic AND q.key = o.key`;
  const poison = `SELECT q.* FROM ${outbox} q WHERE q.part < 0 AND q.seq = $1::bigint AND q.parked_at IS NOT NULL`;

  return {
    join: (relay, leaseMs) =>
      once(
        `INSERT INTO ${relays} AS r (id, until) VALUES ($1, clock_timestamp() + $2::int * interval '1 millisecond')
ON CONFLICT (id) DO UPDATE SET until = excluded.until`,
        [relay, leaseMs],
      ),
    members: () =>
      once(
        `WITH dead AS (DELETE FROM ${relays} WHERE until < clock_timestamp() - interval '1 day')
SELECT id FROM ${relays} WHERE until > clock_timestamp() ORDER BY id`,
        [],
      ),
    leave: relay => once(`DELETE FROM ${relays} WHERE id = $1`, [relay]),
    // Of each part its share: rows beyond it would be read for nothing, and come with the next read.
    read: (parts, held, limit) => ({
      ...read,
      values: [parts.join(','), held.join(','), Math.ceil(limit / parts.length)],
    }),
    remove: rows => ({ ...remove, values: listed(rows) }),
    refused: (row, reason) =>
      once(`UPDATE ${outbox} o SET attempts = attempts + 1, reason = $4 WHERE ${isRow} RETURNING attempts`, [
        row.part,
        String(row.seq),
        row.id,
        reason,
      ]),
    lock: hashes =>
      once(
        `SELECT pg_advisory_xact_lock(${lockClass(t)}, h) FROM (SELECT DISTINCT x::int AS h FROM unnest(string_to_array($1, ',')) AS x ORDER BY 1) AS z`,
        [hashes.join(',')],
      ),
    park: row =>
      once(
        `UPDATE ${outbox} o SET ${aside}, parked_at = CASE WHEN o.seq = $2::bigint THEN now() END
FROM (SELECT o.topic, o.key, o.seq FROM ${outbox} o WHERE ${isRow}) AS p
WHERE o.part = $1::smallint AND (o.seq = p.seq OR (o.topic = p.topic AND o.key = p.key))`,
        [row.part, String(row.seq), row.id],
      ),
    moveBehind: rows =>
      once(
        `UPDATE ${outbox} o SET ${aside} FROM ${list}
WHERE ${matches} AND EXISTS (SELECT FROM ${outbox} q WHERE q.part < 0 AND ${sameKey})`,
        listed(rows),
      ),
    parked: limit =>
      once(
        `SELECT o.seq::text AS seq, o.id, o.topic, o.key, o.attempts, coalesce(o.reason, '') AS reason,
       (extract(epoch FROM o.parked_at) * 1000)::bigint::text AS at,
       (SELECT count(*) FROM ${outbox} q WHERE q.part < 0 AND ${sameKey} AND q.seq <> o.seq)::text AS behind
FROM ${outbox} o WHERE o.part < 0 AND o.parked_at IS NOT NULL ORDER BY o.seq LIMIT $1::int`,
        [limit],
      ),
    find: seq => once(`SELECT o.hash FROM (${poison}) AS o`, [String(seq)]),
    retry: seq =>
      once(
        `UPDATE ${outbox} o SET ${aside}, parked_at = NULL, reason = NULL, attempts = 0 FROM (${poison}) AS q
WHERE o.part < 0 AND (o.seq = q.seq OR (${sameKey}))`,
        [String(seq)],
      ),
    release: seq =>
      once(`UPDATE ${outbox} o SET ${aside} FROM (${poison}) AS q WHERE o.part < 0 AND o.seq <> q.seq AND ${sameKey}`, [
        String(seq),
      ]),
    discard: seq =>
      once(`DELETE FROM ${outbox} WHERE part < 0 AND seq = $1::bigint AND parked_at IS NOT NULL RETURNING 1`, [
        String(seq),
      ]),
    backlog: () =>
      once(
        `SELECT count(*) FILTER (WHERE part >= 0)::text AS waiting,
       (extract(epoch FROM min(at) FILTER (WHERE part >= 0)) * 1000)::bigint::text AS oldest,
       count(*) FILTER (WHERE parked_at IS NOT NULL)::text AS parked,
       count(*) FILTER (WHERE part < 0 AND parked_at IS NULL)::text AS behind FROM ${outbox}`,
        [],
      ),
  };
}
