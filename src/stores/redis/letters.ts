import type {
  LetterEdit,
  LetterEvent,
  LetterFilter,
  LetterNote,
  LetterPage,
  StoredLetter,
} from '../../ports/letters.ts';
import type { DeadLetter } from '../../ports/store.ts';
import { begun, compareIds, pageOf } from '../letters-in-memory.ts';
import type { Connection } from './connection.ts';
import type { ConsumerKeys } from './keys.ts';
import { deadLetter, readLetters, removeLetter, replaceLetter } from './scripts/dead-letter.ts';

/** Somebody else changes the same letter at the same moment; more often than this in a row nobody does. */
const TRIES = 20;

/** The dead letters of one consumer. They have no time to live: they wait for a person. One that is closed is gone. */
export class RedisDeadLetters {
  readonly #connection: Connection;
  readonly #consumer: string;
  readonly #keys: ConsumerKeys;

  constructor(connection: Connection, consumer: string, keys: ConsumerKeys) {
    this.#connection = connection;
    this.#consumer = consumer;
    this.#keys = keys;
  }

  async add(letters: readonly DeadLetter[]): Promise<void> {
    if (letters.length === 0) return;
    const args = letters.flatMap(letter => [
      letter.dedupe,
      jsonOf(letter),
      letter.key === undefined ? '' : JSON.stringify(letter.key),
    ]);
    await this.#connection.run(deadLetter, this.#all, args);
  }

  /** As JSON, which also carries what UTF-8 cannot. */
  async blocked(keys: readonly string[]): Promise<ReadonlySet<string>> {
    if (keys.length === 0) return new Set();
    const { blocked } = this.#keys;
    const command = ['HMGET', blocked, ...keys.map(key => JSON.stringify(key))];
    const held = (await this.#connection.send(blocked, command)) as readonly unknown[];
    return new Set(keys.filter((_, i) => held[i] !== null));
  }

  async count(): Promise<number> {
    return Number(await this.#connection.send(this.#keys.letters, ['HLEN', this.#keys.letters]));
  }

  /** Oldest first. */
  async all(): Promise<readonly StoredLetter[]> {
    return (await this.#read()).rows.map(row => row.letter);
  }

  async list(filter: LetterFilter, page: LetterPage): Promise<readonly StoredLetter[]> {
    const { rows, nowMs } = await this.#read();
    return pageOf(
      rows.map(row => row.letter),
      filter,
      page,
      nowMs,
    );
  }

  async begin(id: string, { by, reason }: LetterNote, edit: LetterEdit | undefined): Promise<StoredLetter | undefined> {
    for (let tries = 0; tries < TRIES; tries++) {
      const { rows, nowMs } = await this.#read();
      const row = rows.find(({ letter }) => letter.id === id);
      if (row === undefined) return undefined;
      const at = new Date(nowMs).toISOString();
      const who = { at, ...(by === undefined ? {} : { by }), ...(reason === undefined ? {} : { reason }) };
      const after = begun(row.letter, who, edit);
      const { letters, letterNotes } = this.#keys;
      const value = `${ageOf(id)} ${jsonOf(after)}`;
      const args = [after.dedupe, row.value, value, row.note, noteOf(after)];
      if (Number(await this.#connection.run(replaceLetter, [letters, letterNotes], args)) === 1) return after;
    }
    return undefined;
  }

  async close(id: string): Promise<boolean> {
    const dedupe = id.slice(id.indexOf('-') + 1);
    return Number(await this.#connection.run(removeLetter, this.#all, [dedupe, ageOf(id)])) === 1;
  }

  get #all(): [string, string, string, string] {
    const { letters, letterKeys, blocked, letterNotes } = this.#keys;
    return [letters, letterKeys, blocked, letterNotes];
  }

  async #read(): Promise<{ readonly rows: readonly Row[]; readonly nowMs: number }> {
    const { letters, letterNotes } = this.#keys;
    const reply = await this.#connection.run(readLetters, [letters, letterNotes], []);
    const [values, notes, micros] = reply as readonly [readonly string[], readonly string[], string];
    const noted = new Map(pairs(notes));
    const rows = pairs(values).map(([dedupe, value]) => rowFrom(this.#consumer, dedupe, value, noted));
    rows.sort((a, b) => compareIds(a.letter.id, b.letter.id));
    return { rows, nowMs: Number(micros) / 1_000 };
  }
}

interface Row {
  readonly letter: StoredLetter;
  /** As they are kept. */
  readonly value: string;
  readonly note: string;
}

type Stored = Omit<DeadLetter, 'payload' | 'time'> & { readonly payload: string; readonly time?: string };

/** What only people write. */
interface Note {
  readonly revision: number;
  readonly history: readonly LetterEvent[];
  readonly original?: { readonly headers: DeadLetter['headers']; readonly payload: string };
}

const ageOf = (id: string) => id.slice(0, id.indexOf('-'));

function jsonOf(letter: DeadLetter): string {
  const {
    messageId,
    dedupe,
    reason,
    kind,
    attempts,
    lane,
    position,
    type,
    key,
    time,
    headers,
    asJson,
    sealed,
    failure,
    errors,
  } = letter;
  const payload = Buffer.from(letter.payload).toString('base64');
  const rest = { messageId, dedupe, reason, kind, attempts, lane, position, type, key, time, headers };
  return JSON.stringify({ ...rest, payload, asJson, sealed, failure, errors });
}

function noteOf({ revision, history, original }: StoredLetter): string {
  const note: Note = {
    revision,
    history,
    ...(original === undefined
      ? {}
      : { original: { headers: original.headers, payload: Buffer.from(original.payload).toString('base64') } }),
  };
  return JSON.stringify(note);
}

function rowFrom(consumer: string, dedupe: string, value: string, noted: ReadonlyMap<string, string>): Row {
  const [age, json] = [value.slice(0, value.indexOf(' ')), value.slice(value.indexOf(' ') + 1)];
  const { payload, time, messageId, position, type, key, ...rest } = JSON.parse(json) as Stored;
  const note = noted.get(dedupe) ?? '';
  const { revision, history, original } = note === '' ? NO_NOTE : (JSON.parse(note) as Note);
  const letter: StoredLetter = {
    ...rest,
    id: `${age}-${dedupe}`,
    consumer,
    messageId,
    position,
    type,
    key,
    time: time === undefined ? undefined : new Date(time),
    payload: Buffer.from(payload, 'base64'),
    firstAt: new Date(Number(age) / 1_000),
    lastAt: new Date(Number(noted.get(`${dedupe}@`) ?? age) / 1_000),
    revision,
    history,
    original: original && { headers: original.headers, payload: Buffer.from(original.payload, 'base64') },
    outcome: undefined,
    closedAt: undefined,
  };
  return { letter, value, note };
}

const NO_NOTE: Note = { revision: 0, history: [] };

function pairs(flat: readonly string[]): (readonly [string, string])[] {
  const found: (readonly [string, string])[] = [];
  for (let i = 0; i < flat.length; i += 2) found.push([flat[i]!, flat[i + 1]!]);
  return found;
}
