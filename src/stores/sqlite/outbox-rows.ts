import { NevertwiceError } from '../../errors.ts';
import { partOf } from '../../outbox/parts.ts';
import type { OutboxRow, WaitingRow } from '../../ports/outbox.ts';
import { NOW } from './claims.ts';
import type { Connection } from './connection.ts';
import type { Names } from './options.ts';

/** Writes a row in the open transaction; false where its id waits already. There is one writer, so numbers rise with commits. */
export function insertRow(connection: Connection, { quoted }: Names, row: OutboxRow): boolean {
  const insert = `INSERT INTO ${quoted.outbox} (part, hash, json, id, topic, key, headers, payload, at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ${NOW}) ON CONFLICT (id) DO NOTHING`;
  const { hash, json, id, topic, key, headers, payload } = row;
  const written = connection.run(
    insert,
    BigInt(partOf(hash)),
    BigInt(hash),
    json ? 1n : 0n,
    id,
    topic,
    key ?? null,
    headers ?? null,
    payload,
  );
  return written > 0;
}

export function assertAdded(row: OutboxRow, written: boolean): void {
  if (written || !row.refuseClash) return;
  throw new NevertwiceError(
    'NT_OUTBOX_CLASH',
    `a message with the id ${JSON.stringify(row.id)} waits in the outbox already; this one was not added`,
  );
}

interface Stored {
  readonly seq: string;
  readonly part: number;
  readonly hash: number;
  readonly json: number;
  readonly id: string;
  readonly topic: string;
  readonly key: string | null;
  readonly headers: string | null;
  readonly payload: Uint8Array;
  readonly attempts: number;
  readonly at: number;
  readonly behind: number;
}

/** The oldest rows of a part. */
export function readRows(
  connection: Connection,
  { quoted }: Names,
  part: number,
  held: readonly number[],
  limit: number,
): readonly WaitingRow[] {
  const without = held.length === 0 ? '' : `AND hash NOT IN (${held.join(',')})`;
  const rows = connection.all<Stored>(
    `SELECT CAST(seq AS TEXT) AS seq, part, hash, json, id, topic, key, headers, payload, attempts, at,
       EXISTS (SELECT 1 FROM ${quoted.outbox} q WHERE q.part < 0 AND q.topic = o.topic AND q.key = o.key) AS behind
     FROM ${quoted.outbox} o WHERE part = ? ${without} ORDER BY o.seq LIMIT ?`,
    BigInt(part),
    BigInt(limit),
  );
  return rows.map(row => ({
    part: Number(row.part),
    seq: BigInt(row.seq),
    id: row.id,
    topic: row.topic,
    key: row.key ?? undefined,
    headers: row.headers ?? undefined,
    json: Number(row.json) === 1,
    payload: Buffer.from(row.payload),
    hash: Number(row.hash),
    attempts: Number(row.attempts),
    at: new Date(Number(row.at)),
    behind: Number(row.behind) === 1,
  }));
}
