import { randomUUID } from 'node:crypto';
import { nextToken, payloadConflict } from '../../core/lease-rules.ts';
import type { Answer, Claim, LeaseGrant, LeaseProof, LeaseState } from '../../ports/store.ts';
import { fingerprintBytes } from '../sqlite/claims.ts';
import type { Connection } from '../sqlite/connection.ts';
import { resultFrom } from './results.ts';
import { CLAIMED, DONE, RELEASED } from './schema.ts';

interface Row {
  readonly state: number;
  readonly nonce: string | null;
  readonly token: string;
  readonly at: number;
  readonly fp: string;
  readonly result: string | null;
}

const OF_KEY = 'consumer = ? AND key = ?';
const OWNED = `${OF_KEY} AND nonce = ?`;
// The token as text: the client gives integers as numbers, which end at 2^53.
const READ = `SELECT state, nonce, CAST(token AS TEXT) AS token, at, lower(hex(fp)) AS fp, result FROM ids WHERE ${OF_KEY}`;
const INSERT = `INSERT INTO ids (consumer, key, state, nonce, token, at, fp) VALUES (?, ?, ${CLAIMED}, ?, ?, ?, ?)
  ON CONFLICT DO NOTHING`;
const REPLACE = `UPDATE ids SET state = ${CLAIMED}, nonce = ?, token = ?, at = ?, fp = ?, result = NULL WHERE ${OF_KEY}`;
const RENEW = `UPDATE ids SET at = ? WHERE ${OWNED}`;
const COMPLETE = `UPDATE ids SET state = ${DONE}, nonce = NULL, at = ?, result = ? WHERE ${OWNED}`;
const RELEASE = `UPDATE ids SET state = ${RELEASED}, nonce = NULL, at = ? WHERE ${OWNED}`;

/**
 * The ids of one consumer: absent → claimed → done. A claim outlives its lease and its release, as the memory of its
 * token. Each method runs in the open transaction; `now` is the file's time.
 */
export class LeaseRows {
  readonly #consumer: bigint;
  readonly #retentionMs: number;

  constructor(consumer: bigint, retentionMs: number) {
    this.#consumer = consumer;
    this.#retentionMs = retentionMs;
  }

  claim(connection: Connection, now: number, claim: Claim, leaseMs: number): LeaseGrant {
    const nonce = randomUUID();
    const until = endOf(now, leaseMs);
    const fingerprint = fingerprintBytes(claim);
    const first = nextToken(undefined, now);
    // New ids are the rule, and cost one statement.
    if (connection.run(INSERT, this.#consumer, claim.key, nonce, first, until, fingerprint) > 0) {
      return { answer: { answer: 'fresh' }, nonce, token: first };
    }
    const row = this.#read(connection, claim)!;
    const answer = this.#answer(row, claim, now);
    if (answer.answer !== 'fresh') return { answer };
    const token = nextToken(BigInt(row.token), now);
    connection.run(REPLACE, nonce, token, until, fingerprint, this.#consumer, claim.key);
    return { answer, nonce, token };
  }

  renew(connection: Connection, now: number, { claim, nonce }: LeaseProof, leaseMs: number): boolean {
    return connection.run(RENEW, endOf(now, leaseMs), this.#consumer, claim.key, nonce) > 0;
  }

  complete(connection: Connection, now: number, { claim, nonce }: LeaseProof, result: string | null): boolean {
    return connection.run(COMPLETE, BigInt(now), result, this.#consumer, claim.key, nonce) > 0;
  }

  release(connection: Connection, now: number, { claim, nonce }: LeaseProof): boolean {
    return connection.run(RELEASE, BigInt(now), this.#consumer, claim.key, nonce) > 0;
  }

  inspect(connection: Connection, now: number, claim: Claim): LeaseState {
    const row = this.#read(connection, claim);
    if (row === undefined || this.#isForgotten(row, now)) return { state: 'absent' };
    const [token, at] = [BigInt(row.token), new Date(row.at)];
    if (row.state === RELEASED) return { state: 'released', token };
    if (row.state === CLAIMED) return { state: 'claimed', token, until: at };
    return row.result === null ? { state: 'done', at } : { state: 'done', at, result: resultFrom(row.result) };
  }

  #answer(row: Row, claim: Claim, now: number): Answer {
    const isFree = row.state === CLAIMED ? row.at <= now : row.state === RELEASED || this.#isForgotten(row, now);
    if (isFree) return { answer: 'fresh' };
    const conflict = payloadConflict(row.fp === '' ? undefined : row.fp, claim.fingerprint);
    if (conflict !== undefined) return conflict;
    if (row.state === CLAIMED) return { answer: 'busy', until: new Date(row.at) };
    return { answer: 'duplicate', at: new Date(row.at), result: resultFrom(row.result) };
  }

  // Not yet swept away, and done with all the same: when that happens must not depend on how busy the sweeper is.
  #isForgotten({ state, at }: Row, now: number): boolean {
    return state === DONE && at + this.#retentionMs <= now;
  }

  #read(connection: Connection, { key }: Claim): Row | undefined {
    return connection.all<Row>(READ, this.#consumer, key)[0];
  }
}

function endOf(now: number, leaseMs: number): bigint {
  return BigInt(Math.ceil(now + leaseMs));
}
