import type { Delivery } from '../../ports/delivery.ts';
import { WaitList } from '../wait-list.ts';
import { deliveryOf, type MemoryRecord } from './message.ts';

/**
 * How far one group has come in one partition. Everything it knows are offsets into the log:
 *
 *     0 … settled … | unsettled: in flight, delayed or to be given again, with settled ones between | next … end
 *
 * so a message is in exactly one of the places below, and none of them means that it is settled.
 */
export class Cursor {
  /** Wakes when there may be something to take, or when everything is settled. */
  readonly changed = new WaitList();
  readonly partition: number;
  readonly #topic: string;
  readonly #log: readonly MemoryRecord[];
  /** The first offset that was never handed out. */
  #next = 0;
  /** Handed out before and to be handed out again; in order. */
  #again: number[] = [];
  #delayed: { offset: number; dueMs: number }[] = [];
  readonly #inFlight = new Map<Delivery, number>();
  /** Times handed out, by offset. */
  readonly #attempts: number[] = [];

  constructor(partition: number, topic: string, log: readonly MemoryRecord[]) {
    this.partition = partition;
    this.#topic = topic;
    this.#log = log;
  }

  /** Messages sent and not settled. */
  get pending(): number {
    return this.#log.length - this.#next + this.#again.length + this.#delayed.length + this.#inFlight.size;
  }

  /** The lowest offset that is not settled: where a group that kept only this number would go on. */
  get committed(): number {
    let lowest = this.#again[0] ?? this.#next;
    for (const { offset } of this.#delayed) lowest = Math.min(lowest, offset);
    for (const offset of this.#inFlight.values()) lowest = Math.min(lowest, offset);
    return lowest;
  }

  /** Up to `max` deliveries: first what was handed out before, both in order. */
  take(max: number, nowMs: number): readonly Delivery[] {
    const due = this.#delayed.filter(({ dueMs }) => dueMs <= nowMs);
    if (due.length > 0) {
      this.#delayed = this.#delayed.filter(({ dueMs }) => dueMs > nowMs);
      this.#giveAgain(due.map(({ offset }) => offset));
    }
    const offsets = this.#again.splice(0, max);
    while (offsets.length < max && this.#next < this.#log.length) offsets.push(this.#next++);
    return offsets.map(offset => {
      const attempt = (this.#attempts[offset] ?? 0) + 1;
      this.#attempts[offset] = attempt;
      const delivery = deliveryOf(this.#log[offset]!, this.#topic, attempt);
      this.#inFlight.set(delivery, offset);
      return delivery;
    });
  }

  /** Milliseconds until the first delayed message is due; undefined when none is delayed. */
  dueInMs(nowMs: number): number | undefined {
    if (this.#delayed.length === 0) return undefined;
    return Math.min(...this.#delayed.map(({ dueMs }) => dueMs)) - nowMs;
  }

  isInFlight(delivery: Delivery): boolean {
    return this.#inFlight.has(delivery);
  }

  ack(delivery: Delivery): void {
    this.#inFlight.delete(delivery);
  }

  delay(delivery: Delivery, dueMs: number): void {
    this.#delayed.push({ offset: this.#inFlight.get(delivery)!, dueMs });
    this.#inFlight.delete(delivery);
  }

  /** Everything in flight is to be handed out again. The deliveries that were out can no longer settle anything. */
  takeBack(): void {
    const offsets = [...this.#inFlight.values()];
    this.#inFlight.clear();
    this.#giveAgain(offsets);
    this.changed.wakeAll();
  }

  /** Hands an offset out once more, settled or in flight alike. One that was never handed out comes anyway. */
  redeliver(offset: number): void {
    if (offset < this.#next) this.#giveAgain([offset]);
    this.changed.wakeAll();
  }

  #giveAgain(offsets: readonly number[]): void {
    this.#again = [...new Set([...this.#again, ...offsets])].sort((a, b) => a - b);
  }
}
