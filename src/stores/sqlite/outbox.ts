import { partsOf } from '../../outbox/parts.ts';
import { Signs } from '../../outbox/signs.ts';
import type { Backlog, OutboxRow, OutboxStore, ParkedRow, WaitingRow, WakeListener } from '../../ports/outbox.ts';
import { NOW } from './claims.ts';
import type { Bindable, Connection } from './connection.ts';
import { own } from './errors.ts';
import { assertBegun } from './open-transaction.ts';
import type { Names } from './options.ts';
import { assertAdded, insertRow, readRows } from './outbox-rows.ts';
import type { TransactionRunner } from './runner.ts';

/** The outbox in SQLite, whose one writer makes the order of commits the order of the numbers. */
export class SqliteOutbox<Tx> implements OutboxStore<Tx> {
  readonly #store: string;
  readonly #names: Names;
  readonly #runner: TransactionRunner;
  readonly #connections: { own(): Promise<Connection>; callers(tx: Tx): Promise<Connection> };
  readonly #signs = new Signs();

  constructor(
    store: string,
    names: Names,
    runner: TransactionRunner,
    connections: { own(): Promise<Connection>; callers(tx: Tx): Promise<Connection> },
  ) {
    this.#store = store;
    this.#names = names;
    this.#runner = runner;
    this.#connections = connections;
  }

  get #table(): string {
    return this.#names.quoted.outbox;
  }

  get #relays(): string {
    return this.#names.quoted.relays;
  }

  async open(): Promise<void> {
    await this.#connections.own();
  }

  // Not by way of the queue: the caller is in it with his own transaction.
  async add(tx: Tx, rows: readonly OutboxRow[]): Promise<number> {
    const connection = await this.#connections.callers(tx);
    assertBegun(connection);
    return own(this.#store, () => {
      let leftOut = 0;
      for (const row of rows) {
        const written = insertRow(connection, this.#names, row);
        assertAdded(row, written);
        if (!written) leftOut++;
      }
      return leftOut;
    });
  }

  wake(): void {
    this.#signs.give();
  }

  listen(listener: WakeListener): () => Promise<void> {
    const off = this.#signs.on(() => listener.woken());
    // SQLite tells other processes nothing; they poll.
    listener.state(false, undefined);
    return async () => off();
  }

  join(relay: string, leaseMs: number): Promise<readonly number[]> {
    return this.#write(connection => {
      connection.run(
        `INSERT INTO ${this.#relays} (id, until) VALUES (?, ${NOW} + ?) ON CONFLICT (id) DO UPDATE SET until = excluded.until`,
        relay,
        BigInt(leaseMs),
      );
      connection.run(`DELETE FROM ${this.#relays} WHERE until <= ${NOW}`);
      const members = connection.all<{ id: string }>(`SELECT id FROM ${this.#relays} ORDER BY id`).map(({ id }) => id);
      return partsOf(relay, members);
    });
  }

  async leave(relay: string): Promise<void> {
    await this.#write(connection => connection.run(`DELETE FROM ${this.#relays} WHERE id = ?`, relay));
  }

  async read(parts: readonly number[], held: readonly number[], limit: number): Promise<readonly WaitingRow[]> {
    if (parts.length === 0) return [];
    const share = Math.ceil(limit / parts.length);
    const connection = await this.#connections.own();
    const rows = await this.#runner.read(connection, () =>
      own(this.#store, () => parts.flatMap(part => readRows(connection, this.#names, part, held, share))),
    );
    return rows.toSorted((a, b) => (a.seq < b.seq ? -1 : 1));
  }

  async remove(rows: readonly WaitingRow[]): Promise<void> {
    if (rows.length === 0) return;
    await this.#write(connection => {
      const remove = `DELETE FROM ${this.#table} WHERE seq = ? AND id = ? AND part >= 0`;
      for (const { seq, id } of rows) connection.run(remove, seq, id);
    });
  }

  refused({ seq, id }: WaitingRow, reason: string): Promise<number | undefined> {
    return this.#write(connection => {
      const changed = connection.run(
        `UPDATE ${this.#table} SET attempts = attempts + 1, reason = ? WHERE seq = ? AND id = ?`,
        reason,
        seq,
        id,
      );
      if (changed === 0) return undefined;
      const [row] = connection.all<{ attempts: number }>(`SELECT attempts FROM ${this.#table} WHERE seq = ?`, seq);
      return Number(row!.attempts);
    });
  }

  async park({ seq, id }: WaitingRow): Promise<void> {
    await this.#write(connection => {
      const there = connection.run(
        `UPDATE ${this.#table} SET parked_at = ${NOW}, part = -1 - part WHERE seq = ? AND id = ? AND part >= 0`,
        seq,
        id,
      );
      if (there > 0) this.#move(connection, 'part >= 0', 'seq = ?', seq);
    });
  }

  async moveBehind(rows: readonly WaitingRow[]): Promise<void> {
    if (rows.length === 0) return;
    await this.#write(connection => {
      const move = `UPDATE ${this.#table} AS o SET part = -1 - part WHERE seq = ? AND id = ? AND part >= 0
        AND EXISTS (SELECT 1 FROM ${this.#table} q WHERE q.part < 0 AND q.topic = o.topic AND q.key = o.key)`;
      for (const { seq, id } of rows) connection.run(move, seq, id);
    });
  }

  async parked(limit: number): Promise<readonly ParkedRow[]> {
    const connection = await this.#connections.own();
    const read = `SELECT CAST(seq AS TEXT) AS seq, id, topic, key, attempts, coalesce(reason, '') AS reason, parked_at AS at,
        (SELECT count(*) FROM ${this.#table} q
         WHERE q.part < 0 AND q.topic = o.topic AND q.key = o.key AND q.seq <> o.seq) AS behind
      FROM ${this.#table} o WHERE part < 0 AND parked_at IS NOT NULL ORDER BY o.seq LIMIT ?`;
    const rows = await this.#runner.read(connection, () =>
      own(this.#store, () => connection.all<Record<string, string | null>>(read, BigInt(limit))),
    );
    return rows.map(row => ({
      seq: BigInt(row.seq!),
      id: row.id!,
      topic: row.topic!,
      key: row.key ?? undefined,
      attempts: Number(row.attempts),
      reason: row.reason!,
      parkedAt: new Date(Number(row.at)),
      behind: Number(row.behind),
    }));
  }

  retry(seq: bigint): Promise<boolean> {
    return this.#onParked(seq, connection => {
      this.#move(connection, 'part < 0', 'seq = ?', seq);
      connection.run(
        `UPDATE ${this.#table} SET part = -1 - part, parked_at = NULL, reason = NULL, attempts = 0 WHERE seq = ?`,
        seq,
      );
    });
  }

  discard(seq: bigint): Promise<boolean> {
    return this.#onParked(seq, connection => {
      this.#move(connection, 'part < 0', 'seq = ?', seq);
      connection.run(`DELETE FROM ${this.#table} WHERE seq = ?`, seq);
    });
  }

  async backlog(): Promise<Backlog> {
    const connection = await this.#connections.own();
    const read = `SELECT count(*) FILTER (WHERE part >= 0) AS waiting, min(at) FILTER (WHERE part >= 0) AS oldest,
      count(*) FILTER (WHERE parked_at IS NOT NULL) AS parked,
      count(*) FILTER (WHERE part < 0 AND parked_at IS NULL) AS behind FROM ${this.#table}`;
    const [row] = await this.#runner.read(connection, () =>
      own(this.#store, () => connection.all<Record<string, number | null>>(read)),
    );
    return {
      waiting: Number(row!.waiting),
      oldest: row!.oldest === null ? undefined : new Date(Number(row!.oldest)),
      parked: Number(row!.parked),
      behind: Number(row!.behind),
    };
  }

  async #onParked(seq: bigint, work: (connection: Connection) => void): Promise<boolean> {
    const there = await this.#write(connection => {
      const find = `SELECT 1 FROM ${this.#table} WHERE seq = ? AND part < 0 AND parked_at IS NOT NULL`;
      const found = connection.all(find, seq).length > 0;
      if (found) work(connection);
      return found;
    });
    if (there) this.wake();
    return there;
  }

  /** The other rows of a row's key, to the other side. */
  #move(connection: Connection, side: string, row: string, ...values: Bindable[]): void {
    const sameKey = `EXISTS (SELECT 1 FROM ${this.#table} q WHERE q.${row} AND q.topic = o.topic AND q.key = o.key AND q.seq <> o.seq)`;
    connection.run(`UPDATE ${this.#table} AS o SET part = -1 - part WHERE ${side} AND ${sameKey}`, ...values);
  }

  async #write<R>(work: (connection: Connection) => R): Promise<R> {
    const connection = await this.#connections.own();
    return this.#runner.run(connection, { overlap: false }, async () => own(this.#store, () => work(connection)));
  }
}
