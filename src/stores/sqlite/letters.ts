import type { LetterEdit, LetterEvent, LetterFilter, LetterPage, Letters, StoredLetter } from '../../ports/letters.ts';
import { type LetterRow, letterFrom } from '../sql/letter-row.ts';
import { NOW } from './claims.ts';
import type { Bindable, Connection } from './connection.ts';
import type { Names } from './options.ts';

const MOST_EVENTS = 50;

/** How transactions are run on the file. */
export interface Access {
  read<R>(work: (connection: Connection) => R): Promise<R>;
  write<R>(work: (connection: Connection) => R): Promise<R>;
}

/** What a person asks of and does with dead letters; each in a transaction of its own. */
export function sqliteLetters(names: Names, { read, write }: Access): Letters {
  return {
    list: (consumer, filter, page) => read(connection => list(connection, names, consumer, filter, page)),
    begin: (consumer, id, { by, reason }, edit) =>
      write(connection => {
        const number = numberOf(connection, names, consumer);
        if (number === undefined || !isOpenLetter(connection, names, number, id)) return undefined;
        if (edit !== undefined) revise(connection, names, id, edit);
        append(connection, names, id, { action: edit === undefined ? 'retry' : 'revise', by, reason });
        return list(connection, names, consumer, { ids: [id] }, { limit: 1 })[0];
      }),
    close: (consumer, id, outcome, note) =>
      write(connection => {
        const number = numberOf(connection, names, consumer);
        if (number === undefined || !isOpenLetter(connection, names, number, id)) return false;
        closeLetter(connection, names, number, id, { action: outcome, ...note });
        return true;
      }),
  };
}

interface Done {
  readonly action: LetterEvent['action'];
  readonly by?: string | undefined;
  readonly reason?: string | undefined;
}

/** An id of another store, or one that was mistyped, names no row here. */
function isId(id: string): boolean {
  return /^\d{1,19}$/.test(id) && BigInt(id) < 2n ** 63n;
}

export function isOpenLetter(connection: Connection, names: Names, consumer: bigint, id: string): boolean {
  const open = `SELECT 1 FROM ${names.quoted.deadLetters} WHERE consumer = ? AND id = ? AND closed_at IS NULL`;
  return isId(id) && connection.all(open, consumer, BigInt(id)).length > 0;
}

/** In the open transaction, which has seen it open. */
export function closeLetter(connection: Connection, names: Names, consumer: bigint, id: string, done: Done): void {
  append(connection, names, id, done);
  const close = `UPDATE ${names.quoted.deadLetters} SET closed_at = ${NOW}, outcome = ? WHERE consumer = ? AND id = ?`;
  connection.run(close, done.action, consumer, BigInt(id));
}

function revise(connection: Connection, names: Names, id: string, { headers, payload }: LetterEdit): void {
  const revised = `UPDATE ${names.quoted.deadLetters} SET revision = coalesce(revision, 0) + 1,
    original = coalesce(original, json_object('headers', headers, 'payload', hex(payload))),
    headers = coalesce(?, headers), payload = coalesce(?, payload) WHERE id = ?`;
  connection.run(revised, headers === undefined ? null : JSON.stringify(headers), payload ?? null, BigInt(id));
}

function append(connection: Connection, names: Names, id: string, { action, by, reason }: Done): void {
  const table = names.quoted.deadLetters;
  const at = `SELECT history, strftime('%Y-%m-%dT%H:%M:%fZ', 'now') AS at FROM ${table} WHERE id = ?`;
  const [row] = connection.all<{ history: string | null; at: string }>(at, BigInt(id));
  const before = JSON.parse(row?.history ?? '[]') as readonly LetterEvent[];
  const event = { action, at: row!.at, by, reason };
  const events = JSON.stringify([...before.slice(1 - MOST_EVENTS), event]);
  connection.run(`UPDATE ${table} SET history = ? WHERE id = ?`, events, BigInt(id));
}

function numberOf(connection: Connection, names: Names, consumer: string): bigint | undefined {
  const [row] = connection.all<{ id: number }>(`SELECT id FROM ${names.quoted.consumers} WHERE name = ?`, consumer);
  return row === undefined ? undefined : BigInt(row.id);
}

function list(
  connection: Connection,
  names: Names,
  consumer: string,
  filter: LetterFilter,
  { after, limit }: LetterPage,
): readonly StoredLetter[] {
  const number = numberOf(connection, names, consumer);
  if (number === undefined) return [];
  const values: Bindable[] = [number];
  const where = ['consumer = ?', `closed_at IS ${filter.closed === true ? 'NOT ' : ''}NULL`];
  const and = (condition: string, ...given: (Bindable | undefined)[]) => {
    if (given.includes(undefined)) return;
    where.push(condition);
    values.push(...(given as Bindable[]));
  };
  const ids = filter.ids?.filter(isId);
  if (ids !== undefined) and(`id IN (${ids.map(() => '?').join(', ')})`, ...ids.map(BigInt));
  and('failure = ?', filter.fingerprint);
  and('kind = ?', filter.kind);
  and('key = ?', filter.key);
  and('message_id = ?', filter.messageId);
  and(`at <= ${NOW} - ?`, filter.olderThanMs === undefined ? undefined : BigInt(Math.round(filter.olderThanMs)));
  and(`at >= ${NOW} - ?`, filter.newerThanMs === undefined ? undefined : BigInt(Math.round(filter.newerThanMs)));
  and('id > ?', after === undefined ? undefined : BigInt(after));
  const read = `SELECT CAST(id AS TEXT) AS id, lower(hex(dedupe)) AS dedupe, message_id, kind, reason, attempts, lane, position, type,
      key, time, headers, hex(payload) AS payload, coalesce(first_at, at) AS first_at, at, closed_at, failure, errors, as_json, sealed,
      revision, original, history, outcome
    FROM ${names.quoted.deadLetters} AS d WHERE ${where.join(' AND ')} ORDER BY d.id LIMIT ${limit}`;
  return connection.all<LetterRow>(read, ...values).map(row => letterFrom(consumer, row));
}
