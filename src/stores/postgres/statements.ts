import type { LaneMove } from '../../ports/lanes.ts';
import { statementName } from '../sql/template.ts';
import { withEvent } from './letter-history.ts';
import type { Tables } from './tables.ts';

export interface Statement {
  readonly text: string;
  /** For clients that keep statements prepared. */
  readonly name: string;
  readonly values: readonly (string | number | null)[];
}

/**
 * All the SQL of the hot path. Parameters are plain text and integers only (lists as comma-separated hex), so that every
 * client and ORM passes them alike: arrays and binary values are where they differ.
 */
export interface Statements {
  claim(
    consumer: number,
    keys: readonly string[],
    fingerprints: readonly (string | undefined)[],
    bounds: Bounds,
  ): Statement;
  /** What stands in the place of a claim where nothing is claimed: the idle limit alone. */
  unclaimed(idleMs: number): Statement;
  lookup(consumer: number, keys: readonly string[]): Statement;
  unclaim(consumer: number, keys: readonly string[]): Statement;
  blockedKeys(consumer: number, keys: readonly string[]): Statement;
  deadLetter(consumer: number, letters: string): Statement;
  /** Locks an open letter; no row, and no wait, where it is closed or locked by another transaction. */
  holdLetter(consumer: number, id: string): Statement;
  closeLetter(consumer: number, id: string): Statement;
  /** Fails with 2201G where the lane has another epoch or position. */
  advance(consumer: number, move: LaneMove): Statement;
}

export interface Bounds {
  /** How long a claim may wait for a live owner before the transaction gives up (55P03), in milliseconds. */
  readonly lockMs: number;
  /** Idle-in-transaction limit for this transaction when the session has none, in milliseconds. */
  readonly idleMs: number;
}

export function statementsFor(t: Tables): Statements {
  const named = (text: string) => ({ text, name: statementName(text) });

  // ORDER BY: batches that claim the same ids in different orders would deadlock each other.
  //
  // One statement: the bound on waiting is set before the first insert can wait (the insert reads `g`), and the
  // caller's own bound is back when the statement ends, since the outer SELECT reads `a` to its end first. A second
  // statement for either would cost 25 µs a transaction. The idle limit is only set where the session has none.
  const claim = named(`WITH g AS MATERIALIZED (
  SELECT current_setting('lock_timeout') AS mine, set_config('lock_timeout', $4, true),
         CASE WHEN current_setting('idle_in_transaction_session_timeout') IN ('0', '0ms')
              THEN set_config('idle_in_transaction_session_timeout', $5, true) END),
a AS (
  INSERT INTO ${t.quoted.inbox} (consumer, key, fp)
  SELECT $1::int, decode(x, 'hex'), decode(f, 'hex')
  FROM g, unnest(string_to_array($2, ','), string_to_array($3, ',', '')) AS u(x, f)
  WHERE g.mine IS NOT NULL
  ORDER BY 2
  ON CONFLICT DO NOTHING
  RETURNING key),
r AS MATERIALIZED (SELECT string_agg(encode(key, 'hex'), ',') AS fresh, count(*) AS n FROM a)
SELECT r.fresh, CASE WHEN r.n >= 0 THEN set_config('lock_timeout', (SELECT mine FROM g), true) END AS restored FROM r`);

  const unclaimed = named(`SELECT CASE WHEN current_setting('idle_in_transaction_session_timeout') IN ('0', '0ms')
            THEN set_config('idle_in_transaction_session_timeout', $1, true) END`);

  const lookup =
    named(`SELECT encode(key, 'hex') AS key, encode(fp, 'hex') AS fp, (extract(epoch FROM at) * 1000)::bigint::text AS at
FROM ${t.quoted.inbox}
WHERE consumer = $1::int AND key = ANY (ARRAY(SELECT decode(x, 'hex') FROM unnest(string_to_array($2, ',')) AS u(x)))`);

  const unclaim = named(`DELETE FROM ${t.quoted.inbox}
WHERE consumer = $1::int AND key = ANY (ARRAY(SELECT decode(x, 'hex') FROM unnest(string_to_array($2, ',')) AS u(x)))`);

  const blocked = named(`SELECT DISTINCT encode(convert_to(key, 'UTF8'), 'hex') AS key FROM ${t.quoted.deadLetters}
WHERE consumer = $1::int AND closed_at IS NULL
  AND key = ANY (ARRAY(SELECT convert_from(decode(x, 'hex'), 'UTF8') FROM unnest(string_to_array($2, ',')) AS u(x)))`);

  // The letters travel as one JSON text; bytes inside are hex. A copy that is already open is brought up to date. The
  // parameter is text, since a client that sees a json one (postgres.js) would encode it a second time. Their ids rise in
  // the order given, which is the one in which messages of a key go through again.
  const deadLetter = named(`INSERT INTO ${t.quoted.deadLetters}
  (consumer, dedupe, message_id, kind, reason, attempts, lane, position, type, key, time, headers, payload, first_at,
   failure, errors, as_json, sealed)
SELECT $1::int, decode(l->>'dedupe', 'hex'), l->>'messageId', l->>'kind', l->>'reason', (l->>'attempts')::int, l->>'lane',
       l->>'position', l->>'type', l->>'key', to_timestamp((l->>'time')::double precision / 1000.0), l->>'headers',
       decode(l->>'payload', 'hex'), now(), l->>'failure', l->>'errors', (l->>'asJson')::boolean,
       (l->>'sealed')::boolean
FROM json_array_elements($2::text::json) WITH ORDINALITY AS u(l, n)
ORDER BY n
ON CONFLICT (consumer, dedupe) WHERE closed_at IS NULL
DO UPDATE SET kind = excluded.kind, reason = excluded.reason, attempts = excluded.attempts, at = now(),
  failure = excluded.failure, errors = excluded.errors`);

  const holdLetter = named(`SELECT id FROM ${t.quoted.deadLetters}
WHERE consumer = $1::int AND id = $2::bigint AND closed_at IS NULL FOR UPDATE SKIP LOCKED`);

  const closeLetter =
    named(`UPDATE ${t.quoted.deadLetters} SET closed_at = now(), outcome = 'processed', history = ${withEvent("'processed'", 'NULL', 'NULL')}
WHERE consumer = $1::int AND id = $2::bigint AND closed_at IS NULL`);

  // No row is an error, so that nobody forgets to look at their number: effects cannot be committed past it. An odd one
  // (2201G, a histogram without buckets), since a deferred trigger of the user's may well divide by zero at the same COMMIT. Text
  // travels as hex, so that clients without a pipeline can send all of it in one message with COMMIT.
  const advance = named(`WITH u AS (
  UPDATE ${t.quoted.lanes} SET position = $4::bigint, mark = convert_from(decode($5, 'hex'), 'UTF8'), at = now()
  WHERE consumer = $1::int AND lane = convert_from(decode($2, 'hex'), 'UTF8') AND epoch = $3::bigint AND position = $6::bigint
  RETURNING 1)
SELECT width_bucket(0.5, 0, 1, count(*)::int) FROM u`);

  return {
    advance: (consumer, { lane, epoch, from, to, mark }) => ({
      ...advance,
      values: [
        consumer,
        utf8Hex(lane),
        String(epoch),
        String(to),
        mark === undefined ? null : utf8Hex(mark),
        String(from),
      ],
    }),
    claim: (consumer, keys, fingerprints, bounds) => ({
      ...claim,
      values: [consumer, keys.join(','), joined(fingerprints), String(bounds.lockMs), String(bounds.idleMs)],
    }),
    unclaimed: idleMs => ({ ...unclaimed, values: [String(idleMs)] }),
    lookup: (consumer, keys) => ({ ...lookup, values: [consumer, keys.join(',')] }),
    unclaim: (consumer, keys) => ({ ...unclaim, values: [consumer, keys.join(',')] }),
    blockedKeys: (consumer, keys) => ({ ...blocked, values: [consumer, keys.map(utf8Hex).join(',')] }),
    deadLetter: (consumer, letters) => ({ ...deadLetter, values: [consumer, letters] }),
    holdLetter: (consumer, id) => ({ ...holdLetter, values: [consumer, id] }),
    closeLetter: (consumer, id) => ({ ...closeLetter, values: [consumer, id] }),
  };
}

/** NULL when none has one, which is the usual case beside all having one; the statement reads an empty one as NULL. */
function joined(fingerprints: readonly (string | undefined)[]): string | null {
  return fingerprints.every(f => f === undefined) ? null : fingerprints.map(f => f ?? '').join(',');
}

export function utf8Hex(text: string): string {
  return Buffer.from(text, 'utf8').toString('hex');
}
