import { NevertwiceError } from '../../errors.ts';
import type { Positions } from '../../ports/store.ts';
import type { Connection } from './connection.ts';
import { own } from './errors.ts';
import type { Names } from './options.ts';
import type { TransactionRunner } from './runner.ts';

export function readPosition(
  connection: Connection,
  { quoted: { positions, consumers } }: Names,
  consumer: string,
  lane: string,
): string | undefined {
  const read = `SELECT position FROM ${positions}
    WHERE consumer = (SELECT id FROM ${consumers} WHERE name = ?) AND lane = ?`;
  return connection.all<{ position: string }>(read, consumer, lane)[0]?.position;
}

/** @throws NT_CONFIG for a consumer that the database does not know. */
export function writePosition(
  store: string,
  connection: Connection,
  { quoted: { positions, consumers } }: Names,
  at: { readonly consumer: string; readonly lane: string; readonly position: string },
): void {
  const write = `INSERT INTO ${positions} (consumer, lane, position)
    SELECT id, ?, ? FROM ${consumers} WHERE name = ?
    ON CONFLICT (consumer, lane) DO UPDATE SET position = excluded.position`;
  if (connection.run(write, at.lane, at.position, at.consumer) > 0) return;
  throw new NevertwiceError('NT_CONFIG', `consumer "${at.consumer}" has never been opened on ${store}`);
}

export class SqlitePositions implements Positions {
  readonly #store: string;
  readonly #names: Names;
  readonly #runner: TransactionRunner;
  readonly #ready: () => Promise<Connection>;

  constructor(store: string, names: Names, runner: TransactionRunner, ready: () => Promise<Connection>) {
    this.#store = store;
    this.#names = names;
    this.#runner = runner;
    this.#ready = ready;
  }

  async load(consumer: string, lane: string): Promise<string | undefined> {
    const connection = await this.#ready();
    return this.#runner.read(connection, () => readPosition(connection, this.#names, consumer, lane));
  }

  async save(consumer: string, lane: string, position: string): Promise<void> {
    const connection = await this.#ready();
    await this.#runner.run(connection, { overlap: false }, async () =>
      own(this.#store, () => writePosition(this.#store, connection, this.#names, { consumer, lane, position })),
    );
  }
}
