import type { DeadLetter } from '../../ports/store.ts';
import { NOW } from './claims.ts';
import type { Connection } from './connection.ts';
import type { Names } from './options.ts';

/** Writes dead letters in the open transaction; one that is already open under the same `dedupe` is updated instead. */
export function insertDeadLetters(
  connection: Connection,
  names: Names,
  consumer: bigint,
  letters: readonly DeadLetter[],
): void {
  const insert = `INSERT INTO ${names.quoted.deadLetters}
    (consumer, dedupe, message_id, kind, reason, attempts, lane, position, type, key, time, headers, payload, failure, errors,
     as_json, sealed, at, first_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ${NOW}, ${NOW})
    ON CONFLICT (consumer, dedupe) WHERE closed_at IS NULL DO UPDATE
    SET kind = excluded.kind, reason = excluded.reason, attempts = excluded.attempts, at = excluded.at,
      failure = excluded.failure, errors = excluded.errors`;
  for (const letter of letters) {
    connection.run(
      insert,
      consumer,
      Buffer.from(letter.dedupe, 'hex'),
      letter.messageId ?? null,
      letter.kind,
      letter.reason,
      BigInt(letter.attempts),
      letter.lane,
      letter.position ?? null,
      letter.type ?? null,
      letter.key ?? null,
      letter.time === undefined ? null : BigInt(letter.time.getTime()),
      JSON.stringify(letter.headers),
      letter.payload,
      letter.failure ?? null,
      letter.errors === undefined ? null : JSON.stringify(letter.errors),
      letter.asJson === true ? 1n : null,
      letter.sealed === true ? 1n : null,
    );
  }
}

/** Those of `keys` that have an open dead letter. */
export function readBlockedKeys(
  connection: Connection,
  names: Names,
  consumer: bigint,
  keys: readonly string[],
): ReadonlySet<string> {
  const read = `SELECT 1 FROM ${names.quoted.deadLetters} WHERE consumer = ? AND key = ? AND closed_at IS NULL LIMIT 1`;
  return new Set(keys.filter(key => connection.all(read, consumer, key).length > 0));
}
