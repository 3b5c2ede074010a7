import type { Answer, Claim } from '../../ports/store.ts';
import type { Connection } from './connection.ts';
import type { Names } from './options.ts';

/** The store's clock in milliseconds since 1970. Read in SQL, since other processes may share the file. */
export const NOW = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)";

/**
 * Inserts the claims and tells which are new, in the order given. One prepared statement a row: every form with all rows
 * in one statement (VALUES lists, json_each, a packed blob) was measured and is slower.
 */
export function insertClaims(
  connection: Connection,
  names: Names,
  consumer: bigint,
  claims: readonly Claim[],
): readonly boolean[] {
  const fresh = claims.map(() => false);
  if (claims.length === 0) return fresh;
  const at = now(connection);
  const insert = `INSERT INTO ${names.quoted.inbox} (consumer, key, at, fp) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`;
  for (const { claim, index } of inByteOrder(claims)) {
    fresh[index] = connection.run(insert, consumer, claim.key, at, fingerprintBytes(claim)) > 0;
  }
  return fresh;
}

/** Answers for all claims; reads the rows that were not inserted. */
export function readAnswers(
  connection: Connection,
  names: Names,
  consumer: bigint,
  claims: readonly Claim[],
  fresh: readonly boolean[],
): readonly Answer[] {
  const read = `SELECT at, lower(hex(fp)) AS fp FROM ${names.quoted.inbox} WHERE consumer = ? AND key = ?`;
  return claims.map((claim, i): Answer => {
    if (fresh[i]) return { answer: 'fresh' };
    const [row] = connection.all<{ at: number; fp: string | null }>(read, consumer, claim.key);
    // The first copy's claim was given back in this same transaction. Nobody has done it; it must come again.
    if (row === undefined) return { answer: 'busy' };
    const stored = row.fp ?? '';
    if (stored !== '' && claim.fingerprint !== undefined && stored !== claim.fingerprint) {
      return { answer: 'conflict', stored, offered: claim.fingerprint };
    }
    return { answer: 'duplicate', at: new Date(Number(row.at)) };
  });
}

export function deleteClaims(connection: Connection, names: Names, consumer: bigint, claims: readonly Claim[]): void {
  const remove = `DELETE FROM ${names.quoted.inbox} WHERE consumer = ? AND key = ?`;
  for (const claim of claims) connection.run(remove, consumer, claim.key);
}

// bigint, since the clients bind a number as a float that SQLite then has to turn back.
function now(connection: Connection): bigint {
  return BigInt(connection.all<{ now: number }>(`SELECT ${NOW} AS now`)[0]?.now ?? 0);
}

// Neighbours in the tree one after the other: each page is touched once.
function inByteOrder(claims: readonly Claim[]): { claim: Claim; index: number }[] {
  const ordered = claims.map((claim, index) => ({ claim, index }));
  return ordered.sort((a, b) => (a.claim.hex < b.claim.hex ? -1 : a.claim.hex > b.claim.hex ? 1 : a.index - b.index));
}

/** As stored; NULL for none. */
export function fingerprintBytes(claim: Claim): Uint8Array | null {
  return claim.fingerprint === undefined ? null : Buffer.from(claim.fingerprint, 'hex');
}
