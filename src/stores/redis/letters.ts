import type { DeadLetter } from '../../ports/store.ts';
import type { Connection } from './connection.ts';
import type { ConsumerKeys } from './keys.ts';
import { deadLetter } from './scripts/dead-letter.ts';

/** The dead letters of one consumer. They have no time to live: they wait for a person. */
export class RedisDeadLetters {
  readonly #connection: Connection;
  readonly #keys: ConsumerKeys;

  constructor(connection: Connection, keys: ConsumerKeys) {
    this.#connection = connection;
    this.#keys = keys;
  }

  async add(letters: readonly DeadLetter[]): Promise<void> {
    if (letters.length === 0) return;
    const { letters: all, letterKeys, blocked } = this.#keys;
    const args = letters.flatMap(letter => [
      letter.dedupe,
      JSON.stringify({ ...letter, payload: Buffer.from(letter.payload).toString('base64') }),
      letter.key === undefined ? '' : JSON.stringify(letter.key),
    ]);
    await this.#connection.run(deadLetter, [all, letterKeys, blocked], args);
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
  async all(): Promise<readonly DeadLetter[]> {
    const stored = (await this.#connection.send(this.#keys.letters, [
      'HVALS',
      this.#keys.letters,
    ])) as readonly string[];
    return stored
      .map(text => ({ age: BigInt(text.slice(0, text.indexOf(' '))), json: text.slice(text.indexOf(' ') + 1) }))
      .sort((a, b) => (a.age < b.age ? -1 : 1))
      .map(({ json }) => letterFrom(json));
  }
}

type Stored = Omit<DeadLetter, 'payload' | 'time'> & { readonly payload: string; readonly time?: string };

function letterFrom(json: string): DeadLetter {
  const { payload, time, messageId, position, type, key, ...rest } = JSON.parse(json) as Stored;
  return {
    ...rest,
    messageId,
    position,
    type,
    key,
    time: time === undefined ? undefined : new Date(time),
    payload: Buffer.from(payload, 'base64'),
  };
}
