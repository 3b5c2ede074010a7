import { NevertwiceError } from '../../errors.ts';
import type { Positions } from '../../ports/store.ts';
import type { Connection } from './connection.ts';
import { own } from './errors.ts';
import type { Names } from './options.ts';
import type { TransactionRunner } from './runner.ts';

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
    const { positions, consumers } = this.#names.quoted;
    const read = `SELECT position FROM ${positions}
      WHERE consumer = (SELECT id FROM ${consumers} WHERE name = ?) AND lane = ?`;
    const rows = await this.#runner.read(connection, () => connection.all<{ position: string }>(read, consumer, lane));
    return rows[0]?.position;
  }

  async save(consumer: string, lane: string, position: string): Promise<void> {
    const connection = await this.#ready();
    const { positions, consumers } = this.#names.quoted;
    const write = `INSERT INTO ${positions} (consumer, lane, position)
      SELECT id, ?, ? FROM ${consumers} WHERE name = ?
      ON CONFLICT (consumer, lane) DO UPDATE SET position = excluded.position`;
    const changes = await this.#runner.run(connection, { overlap: false }, async () =>
      own(this.#store, () => connection.run(write, lane, position, consumer)),
    );
    if (changes === 0)
      throw new NevertwiceError('NT_CONFIG', `consumer "${consumer}" has never been opened on ${this.#store}`);
  }
}
