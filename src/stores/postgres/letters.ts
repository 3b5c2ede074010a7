import type { LetterEdit, LetterFilter, LetterPage, Letters, StoredLetter } from '../../ports/letters.ts';
import { letterFrom } from '../sql/letter-row.ts';
import { type Alone, aloneOn } from './alone.ts';
import type { Driver } from './driver.ts';
import { withEvent } from './letter-history.ts';
import type { Tables } from './tables.ts';
import { readable } from './unit.ts';

const COLUMNS = `id::text AS id, encode(dedupe, 'hex') AS dedupe, message_id, kind, reason, attempts::text AS attempts, lane,
  position, type, key, (extract(epoch FROM time) * 1000)::bigint::text AS time, headers, encode(payload, 'hex') AS payload,
  (extract(epoch FROM coalesce(first_at, at)) * 1000)::bigint::text AS first_at, (extract(epoch FROM at) * 1000)::bigint::text AS at,
  (extract(epoch FROM closed_at) * 1000)::bigint::text AS closed_at, failure, errors, as_json::text AS as_json, sealed::text AS sealed,
  revision::text AS revision, original, history, outcome`;

/** What a person asks of and does with dead letters. Each is one statement. */
export function lettersOn<Tx>(driver: Driver<Tx>, t: Tables, ready: () => Promise<void>): Letters {
  const run = aloneOn(driver, ready, "a dead letter's row");
  const table = t.quoted.deadLetters;
  const ofConsumer = `consumer = (SELECT id FROM ${t.quoted.consumers} WHERE name = $1)`;
  // Without waiting: whoever has the row locked is sending it through again.
  const free = `id = (SELECT id FROM ${table} WHERE ${ofConsumer} AND id = $2::bigint AND closed_at IS NULL FOR UPDATE SKIP LOCKED)`;
  const history = withEvent('$3', '$4', '$5');
  return {
    list: (consumer, filter, page) => list(run, table, ofConsumer, consumer, filter, page),
    async begin(consumer, id, { by, reason }, edit) {
      if (!isId(id)) return undefined;
      const [row] = await run(
        `UPDATE ${table} SET history = ${history}${edit === undefined ? '' : EDITED} WHERE ${free} RETURNING ${COLUMNS}`,
        consumer,
        id,
        edit === undefined ? 'retry' : 'revise',
        readable(by),
        readable(reason),
        ...(edit === undefined ? [] : [headersOf(edit), payloadOf(edit)]),
      );
      return row === undefined ? undefined : letterFrom(consumer, row);
    },
    async close(consumer, id, outcome, note) {
      if (!isId(id)) return false;
      const rows = await run(
        `UPDATE ${table} SET closed_at = now(), outcome = $3, history = ${history} WHERE ${free} RETURNING id`,
        consumer,
        id,
        outcome,
        readable(note?.by),
        readable(note?.reason),
      );
      return rows.length > 0;
    },
  };
}

const EDITED = `, revision = coalesce(revision, 0) + 1, headers = coalesce($6, headers), payload = coalesce(decode($7, 'hex'), payload),
  original = coalesce(original, json_build_object('headers', headers, 'payload', encode(payload, 'hex'))::text)`;

function headersOf({ headers }: LetterEdit): string | null {
  return headers === undefined ? null : JSON.stringify(headers);
}

function payloadOf({ payload }: LetterEdit): string | null {
  return payload === undefined ? null : Buffer.from(payload).toString('hex');
}

/** An id of another store, or one that was mistyped, names no row here. */
function isId(id: string): boolean {
  return /^\d{1,19}$/.test(id) && BigInt(id) < 2n ** 63n;
}

async function list(
  run: Alone,
  table: string,
  ofConsumer: string,
  consumer: string,
  filter: LetterFilter,
  { after, limit }: LetterPage,
): Promise<readonly StoredLetter[]> {
  const values: string[] = [consumer];
  const where = [ofConsumer, `closed_at IS ${filter.closed === true ? 'NOT ' : ''}NULL`];
  const and = (value: string | undefined, condition: (parameter: string) => string) => {
    if (value !== undefined) where.push(condition(`$${values.push(value)}`));
  };
  const ids = filter.ids?.filter(isId).join(',');
  and(ids, p => `id = ANY (string_to_array(${p}, ',')::bigint[])`);
  and(filter.fingerprint, p => `failure = ${p}`);
  and(filter.kind, p => `kind = ${p}`);
  and(filter.key && (readable(filter.key) ?? undefined), p => `key = ${p}`);
  and(filter.messageId && (readable(filter.messageId) ?? undefined), p => `message_id = ${p}`);
  and(filter.olderThanMs?.toString(), p => `at <= now() - ${p}::double precision * interval '1 millisecond'`);
  and(filter.newerThanMs?.toString(), p => `at >= now() - ${p}::double precision * interval '1 millisecond'`);
  and(after, p => `id > ${p}::bigint`);
  const rows = await run(
    `SELECT ${COLUMNS} FROM ${table} WHERE ${where.join(' AND ')} ORDER BY ${table}.id LIMIT ${limit}`,
    ...values,
  );
  return rows.map(row => letterFrom(consumer, row));
}
