import type { Entry } from '../entry.ts';
import { NevertwiceError } from '../errors.ts';
import type { LaneMove, LaneRow, LaneRows } from '../ports/lanes.ts';
import { markOf } from './mark.ts';

/** How far a lane has come, as this owner knows it: what it last committed, or read when it took the lane over. */
export class LanePosition {
  readonly #rows: LaneRows;
  readonly #consumer: string;
  readonly #lane: string;
  /** The position alone says what is done, so that it must cover exactly what a transaction handled. */
  readonly #alone: boolean;
  #epoch: bigint;
  #at: bigint;
  #mark: string | undefined;
  /** A commit was sent and never confirmed. */
  #doubtful = false;
  #batch: readonly Entry[] = [];

  constructor(rows: LaneRows, consumer: string, alone: boolean, row: LaneRow & { readonly position: bigint }) {
    this.#rows = rows;
    this.#consumer = consumer;
    this.#alone = alone;
    this.#lane = row.lane;
    this.#epoch = row.epoch;
    this.#at = row.position;
    this.#mark = row.mark;
  }

  /** The next offset to be handled. */
  get at(): bigint {
    return this.#at;
  }

  /** By which this owner holds the lane. */
  get epoch(): bigint {
    return this.#epoch;
  }

  /** The deliveries of the lane that are in work, in order. */
  work(batch: readonly Entry[]): void {
    this.#batch = batch;
  }

  /** The move of a transaction that decides these entries, beside what is decided already. */
  move(decides: readonly Entry[]): LaneMove {
    const deciding = new Set(decides);
    let before = 0;
    let decided = 0;
    let last: Entry | undefined;
    for (const entry of this.#batch) {
      const now = deciding.has(entry);
      if (!now && entry.verdict === undefined) break;
      if (now) decided++;
      else before++;
      last = entry;
    }
    if (this.#alone && decided !== deciding.size) {
      throw new Error(`a transaction would commit entry ${before + decided} of ${this.#lane} out of order`);
    }
    const to = last === undefined ? this.#at : last.delivery.offset! + 1n;
    const moves = last !== undefined && to > this.#at;
    return {
      lane: this.#lane,
      epoch: this.#epoch,
      from: this.#at,
      to: moves ? to : this.#at,
      mark: moves ? markOf(last!.delivery) : this.#mark,
    };
  }

  /** The move is committed. */
  moved({ to, mark }: LaneMove): void {
    this.#at = to;
    this.#mark = mark;
  }

  /** A move may be committed or not. */
  doubt(): void {
    this.#doubtful = true;
  }

  /**
   * Before anything else is sent: raising the epoch again waits for the old backend's commit, or makes it fail. A read
   * would see nothing, and then the commit would land. Rejects with NT_LANE_LOST where another owner was quicker.
   */
  async settleDoubt(): Promise<void> {
    if (!this.#doubtful) return;
    const row = await this.#rows.reraise(this.#consumer, this.#lane, this.#epoch);
    if (row?.position === undefined) {
      throw new NevertwiceError('NT_LANE_LOST', `another process has taken ${this.#lane} over`);
    }
    this.#epoch = row.epoch;
    this.#at = row.position;
    this.#mark = row.mark;
    this.#doubtful = false;
  }

  /** True when the position alone says that this is done. */
  covers(entry: Entry): boolean {
    return this.#alone && entry.delivery.offset! < this.#at;
  }
}
