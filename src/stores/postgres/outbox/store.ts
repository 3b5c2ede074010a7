import { setTimeout as sleep } from 'node:timers/promises';
import { backoffMs } from '../../../core/backoff.ts';
import { classifyFailure } from '../../../core/failures.ts';
import { partsOf } from '../../../outbox/parts.ts';
import { Signs } from '../../../outbox/signs.ts';
import type { Backlog, OutboxRow, OutboxStore, ParkedRow, WaitingRow, WakeListener } from '../../../ports/outbox.ts';
import type { Driver, OpenTransaction, Row } from '../driver.ts';
import type { Statement } from '../statements.ts';
import type { Tables } from '../tables.ts';
import { type AddStatements, addStatements, lockClass } from './add.ts';
import { Ears } from './ears.ts';
import { addRows } from './pending.ts';
import { type OutboxStatements, outboxStatements } from './statements.ts';

const TRIES = 10;

/** The outbox in PostgreSQL. Needs no session state but for `listen`, which is a help and no need. */
export class PostgresOutbox<Tx> implements OutboxStore<Tx> {
  readonly adding: AddStatements;
  readonly #driver: Driver<Tx>;
  readonly #statements: OutboxStatements;
  readonly #ready: () => Promise<void>;
  readonly #channel: string;
  readonly #signs: Signs;

  constructor(driver: Driver<Tx>, tables: Tables, ready: () => Promise<void>) {
    this.adding = addStatements(tables);
    this.#driver = driver;
    this.#statements = outboxStatements(tables);
    this.#ready = ready;
    // Not the table's name, which may be too long for a channel.
    this.#channel = `nevertwice_outbox_${lockClass(tables)}`;
    // Outside of the transaction that adds: one with a NOTIFY in it takes a lock of the whole database to commit.
    this.#signs = new Signs(async () => void (await this.#driver.query(this.#notify(''))));
  }

  #notify(payload: string): Statement {
    return { name: '', text: 'SELECT pg_notify($1, $2)', values: [this.#channel, payload] };
  }

  open(): Promise<void> {
    return this.#ready();
  }

  async add(tx: Tx, rows: readonly OutboxRow[]): Promise<number> {
    await this.#ready();
    const open = this.#driver.join(tx);
    try {
      return rows.length - (await addRows(open, this.adding, rows));
    } finally {
      open.guard.close();
    }
  }

  wake(): void {
    this.#signs.give();
  }

  listen(listener: WakeListener): () => Promise<void> {
    const off = this.#signs.on(() => listener.woken());
    const { listen } = this.#driver;
    if (listen === undefined) {
      listener.state(false, undefined);
      return async () => off();
    }
    const ears = new Ears(listener, {
      listen: heard => listen.call(this.#driver, this.#channel, heard),
      call: async payload => void (await this.#driver.query(this.#notify(payload))),
    });
    return async () => {
      off();
      await ears.close();
    };
  }

  async join(relay: string, leaseMs: number): Promise<readonly number[]> {
    await this.#run(this.#statements.join(relay, leaseMs));
    const members = await this.#run(this.#statements.members());
    return partsOf(
      relay,
      members.map(row => row.id as string),
    );
  }

  async leave(relay: string): Promise<void> {
    await this.#run(this.#statements.leave(relay));
  }

  async read(parts: readonly number[], held: readonly number[], limit: number): Promise<readonly WaitingRow[]> {
    if (parts.length === 0) return [];
    return (await this.#run(this.#statements.read(parts, held, limit))).map(waitingRow);
  }

  async remove(rows: readonly WaitingRow[]): Promise<void> {
    if (rows.length > 0) await this.#run(this.#statements.remove(rows));
  }

  async refused(row: WaitingRow, reason: string): Promise<number | undefined> {
    const [found] = await this.#run(this.#statements.refused(row, reason));
    return found === undefined ? undefined : Number(found.attempts);
  }

  async park(row: WaitingRow): Promise<void> {
    await this.#locked([row.hash], open => open.query(this.#statements.park(row)));
  }

  async moveBehind(rows: readonly WaitingRow[]): Promise<void> {
    if (rows.length === 0) return;
    const hashes = rows.map(row => row.hash);
    await this.#locked(hashes, open => open.query(this.#statements.moveBehind(rows)));
  }

  async parked(limit: number): Promise<readonly ParkedRow[]> {
    return (await this.#run(this.#statements.parked(limit))).map(row => ({
      seq: BigInt(row.seq as string),
      id: row.id as string,
      topic: row.topic as string,
      key: (row.key as string | null) ?? undefined,
      attempts: Number(row.attempts),
      reason: row.reason as string,
      parkedAt: new Date(Number(row.at)),
      behind: Number(row.behind),
    }));
  }

  retry(seq: bigint): Promise<boolean> {
    return this.#onParked(seq, async open => void (await open.query(this.#statements.retry(seq))));
  }

  discard(seq: bigint): Promise<boolean> {
    return this.#onParked(seq, async open => {
      await open.query(this.#statements.release(seq));
      await open.query(this.#statements.discard(seq));
    });
  }

  async backlog(): Promise<Backlog> {
    const [row] = await this.#run(this.#statements.backlog());
    return {
      waiting: Number(row!.waiting),
      oldest: row!.oldest === null ? undefined : new Date(Number(row!.oldest)),
      parked: Number(row!.parked),
      behind: Number(row!.behind),
    };
  }

  async #onParked(seq: bigint, work: (open: OpenTransaction<Tx>) => Promise<void>): Promise<boolean> {
    const [found] = await this.#run(this.#statements.find(seq));
    if (found === undefined) return false;
    const there = await this.#locked([Number(found.hash)], async open => {
      // Two operators at once: the second finds that it was done.
      const [still] = await open.query(this.#statements.find(seq));
      if (still !== undefined) await work(open);
      return still !== undefined;
    });
    if (there) this.wake();
    return there;
  }

  /**
   * Rows change their place only under their key's lock, and on a snapshot of after it: a key that is parked and one that is
   * free are then never mixed, whoever adds or reads meanwhile.
   */
  #locked<R>(hashes: readonly number[], work: (open: OpenTransaction<Tx>) => Promise<R>): Promise<R> {
    return this.#again(() =>
      this.#driver.transaction({ overlap: false, first: undefined }, async open => {
        // Above it the snapshot would be from before the wait.
        await open.query({ name: '', text: 'SET TRANSACTION ISOLATION LEVEL READ COMMITTED', values: [] });
        await open.query(this.#statements.lock(hashes));
        return work(open);
      }),
    );
  }

  #run(statement: Statement): Promise<readonly Row[]> {
    return this.#again(() => this.#driver.query(statement));
  }

  /** Each of these stands alone and may be done twice, so a lost race is simply run again. */
  async #again<R>(work: () => Promise<R>): Promise<R> {
    await this.#ready();
    for (let races = 1; ; races++) {
      try {
        return await work();
      } catch (error) {
        const failure = classifyFailure(error);
        if ((failure !== 'transient' && failure !== 'contended') || races === TRIES) throw error;
        await sleep(backoffMs(races, { minMs: 5, maxMs: 500 }, Math.random()));
      }
    }
  }
}

function waitingRow(row: Row): WaitingRow {
  return {
    part: Number(row.part),
    seq: BigInt(row.seq as string),
    id: row.id as string,
    topic: row.topic as string,
    key: (row.key as string | null) ?? undefined,
    headers: (row.headers as string | null) ?? undefined,
    json: row.json as boolean,
    payload: Buffer.from(row.payload as string, 'base64'),
    hash: Number(row.hash),
    attempts: Number(row.attempts),
    at: new Date(Number(row.at)),
    behind: row.behind as boolean,
  };
}
