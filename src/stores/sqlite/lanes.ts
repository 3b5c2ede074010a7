import { NevertwiceError } from '../../errors.ts';
import type { LaneBeginning, LaneMove, LaneRow, LaneRows } from '../../ports/lanes.ts';
import { NOW } from './claims.ts';
import type { Bindable, Connection } from './connection.ts';
import { own } from './errors.ts';
import type { Names } from './options.ts';
import type { TransactionRunner } from './runner.ts';

/** Moves the lane in the open transaction; false where it has another epoch or position. */
export function moveLane(connection: Connection, names: Names, consumer: bigint, move: LaneMove): boolean {
  const { lane, epoch, from, to, mark } = move;
  const update = `UPDATE ${names.quoted.lanes} SET position = ?, mark = ?, at = ${NOW}
    WHERE consumer = ? AND lane = ? AND epoch = ? AND position = ?`;
  return connection.run(update, to, mark ?? null, consumer, lane, epoch, from) > 0;
}

export function laneLost(store: string): NevertwiceError {
  return new NevertwiceError(
    'NT_LANE_LOST',
    `${store}: another process has taken this lane over, or its position was set by hand; nothing of the batch was committed`,
  );
}

// As text: the clients give integers as numbers, which end at 2^53.
const COLUMNS = 'lane, CAST(epoch AS TEXT) AS epoch, CAST(position AS TEXT) AS position, log, mark, begin_at';

interface Stored {
  readonly lane: string;
  readonly epoch: string;
  readonly position: string | null;
  readonly log: string | null;
  readonly mark: string | null;
  readonly begin_at: string | null;
}

/** Statements on lanes outside a batch, each in a transaction of its own. */
export class SqliteLanes implements LaneRows {
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

  get #lanes(): string {
    return this.#names.quoted.lanes;
  }

  get #ofLane(): string {
    return `consumer = (SELECT id FROM ${this.#names.quoted.consumers} WHERE name = ?) AND lane = ?`;
  }

  raise(consumer: string, lane: string): Promise<LaneRow> {
    return this.#write(connection => {
      const insert = `INSERT INTO ${this.#lanes} (consumer, lane, epoch, at)
        SELECT id, ?, 1, ${NOW} FROM ${this.#names.quoted.consumers} WHERE name = ?
        ON CONFLICT (consumer, lane) DO UPDATE SET epoch = epoch + 1, at = excluded.at`;
      connection.run(insert, lane, consumer);
      const row = this.#read(connection, consumer, lane);
      if (row !== undefined) return row;
      throw new NevertwiceError(
        'NT_SCHEMA',
        `${this.#store} no longer knows consumer ${JSON.stringify(consumer)}; start it again`,
      );
    });
  }

  reraise(consumer: string, lane: string, epoch: bigint): Promise<LaneRow | undefined> {
    return this.#write(connection => {
      const raise = `UPDATE ${this.#lanes} SET epoch = epoch + 1, at = ${NOW} WHERE ${this.#ofLane} AND epoch = ?`;
      const raised = connection.run(raise, consumer, lane, epoch) > 0;
      return raised ? this.#read(connection, consumer, lane) : undefined;
    });
  }

  begin(consumer: string, lane: string, epoch: bigint, { position, log, mark }: LaneBeginning): Promise<boolean> {
    const begin = `UPDATE ${this.#lanes} SET position = ?, log = ?, mark = ?, begin_at = NULL, at = ${NOW}
      WHERE ${this.#ofLane} AND epoch = ?`;
    return this.#changed(begin, position, log, mark ?? null, consumer, lane, epoch);
  }

  async list(consumer: string): Promise<readonly LaneRow[]> {
    const connection = await this.#ready();
    const read = `SELECT ${COLUMNS} FROM ${this.#lanes}
      WHERE consumer = (SELECT id FROM ${this.#names.quoted.consumers} WHERE name = ?) ORDER BY lane`;
    return (await this.#runner.read(connection, () => connection.all<Stored>(read, consumer))).map(rowFrom);
  }

  order(consumer: string, lane: string, beginAt: string): Promise<boolean> {
    const order = `UPDATE ${this.#lanes} SET begin_at = ?, epoch = epoch + 1, at = ${NOW} WHERE ${this.#ofLane}`;
    return this.#changed(order, beginAt, consumer, lane);
  }

  #read(connection: Connection, consumer: string, lane: string): LaneRow | undefined {
    const [row] = connection.all<Stored>(`SELECT ${COLUMNS} FROM ${this.#lanes} WHERE ${this.#ofLane}`, consumer, lane);
    return row === undefined ? undefined : rowFrom(row);
  }

  #changed(sql: string, ...values: Bindable[]): Promise<boolean> {
    return this.#write(connection => connection.run(sql, ...values) > 0);
  }

  async #write<R>(work: (connection: Connection) => R): Promise<R> {
    const connection = await this.#ready();
    return this.#runner.run(connection, { overlap: false }, async () => own(this.#store, () => work(connection)));
  }
}

function rowFrom({ lane, epoch, position, log, mark, begin_at }: Stored): LaneRow {
  return {
    lane,
    epoch: BigInt(epoch),
    position: position === null ? undefined : BigInt(position),
    log: log ?? undefined,
    mark: mark ?? undefined,
    beginAt: begin_at ?? undefined,
  };
}
