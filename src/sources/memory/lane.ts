import type { Clock } from '../../ports/clock.ts';
import type { Delivery } from '../../ports/delivery.ts';
import type { Lane, Settlement } from '../../ports/source.ts';
import type { Cursor } from './cursor.ts';

// setTimeout takes no longer delay; a longer one fires at once.
const LONGEST_SLEEP_MS = 2 ** 31 - 1;

export interface MemoryLaneOptions {
  readonly id: string;
  readonly cursor: Cursor;
  readonly clock: Clock;
  readonly retryLater: boolean;
  /** Whether the lane ends by itself once its partition is settled. */
  readonly finite: boolean;
  /** Asked for every ack; true when this one is to get lost on its way. */
  loseAck(): boolean;
  /** Called after every settle, and when the lane has ended by itself. */
  onChange(): void;
}

/** A partition while one member of a group owns it. */
export class MemoryLane implements Lane {
  readonly id: string;
  readonly #options: MemoryLaneOptions;
  readonly #revocation = new AbortController();
  #ended = false;

  constructor(options: MemoryLaneOptions) {
    this.id = options.id;
    this.#options = options;
  }

  get revoked(): AbortSignal {
    return this.#revocation.signal;
  }

  /** True when nothing will come from it any more. */
  get over(): boolean {
    return this.#ended || this.revoked.aborted;
  }

  async receive(max: number, signal: AbortSignal): Promise<readonly Delivery[]> {
    const { cursor, clock, finite, onChange } = this.#options;
    while (!signal.aborted && !this.over) {
      const deliveries = cursor.take(max, clock.monotonicMs());
      if (deliveries.length > 0) return deliveries;
      if (finite && cursor.pending === 0) {
        this.#ended = true;
        onChange();
        return [];
      }
      await this.#change(signal);
    }
    return [];
  }

  async settle(settlements: readonly Settlement[]): Promise<void> {
    const { cursor, clock, retryLater, loseAck, onChange } = this.#options;
    for (const settlement of settlements) {
      const { delivery } = settlement;
      if (!cursor.isInFlight(delivery)) continue; // settled before, expired, or revoked
      if (settlement.settle === 'ack') {
        if (!loseAck()) cursor.ack(delivery);
      } else if (retryLater) {
        cursor.delay(delivery, clock.monotonicMs() + settlement.delayMs);
      }
    }
    cursor.changed.wakeAll();
    onChange();
  }

  /** Takes the lane away: nothing can be settled through it from now on, and what was not goes to the next owner. */
  revoke(): void {
    if (this.revoked.aborted) return;
    this.#revocation.abort();
    this.#options.cursor.takeBack();
  }

  /** Waits for a change of the partition or for the first delayed message. No timer outlives the call. */
  async #change(signal: AbortSignal): Promise<void> {
    const { cursor, clock } = this.#options;
    const dueMs = cursor.dueInMs(clock.monotonicMs());
    if (dueMs === undefined) return cursor.changed.wait(signal);
    const awake = new AbortController();
    const changed = cursor.changed.wait(signal).then(() => awake.abort());
    await clock.sleep(Math.min(Math.ceil(dueMs), LONGEST_SLEEP_MS), awake.signal);
    cursor.changed.wakeAll();
    await changed;
  }
}
