import type { Delivery } from '../../ports/delivery.ts';
import type { Place } from './lines.ts';

interface Entry {
  readonly window: Window;
  readonly start: Place;
  settled: boolean;
}

// Not a Map from delivery to entry: its tables, rewritten with every batch, end as old garbage that keeps dead
// deliveries alive through every minor collection. Measured: collecting took half of all time, and takes a tenth now.
const ENTRY: unique symbol = Symbol('nevertwice.jsonl.entry');

interface Tracked extends Delivery {
  [ENTRY]?: Entry;
}

/** What was handed out, in order, from the first line on that is not settled. */
export class Window {
  #entries: Entry[] = [];

  /** Where the first unsettled line begins; undefined when all are settled. */
  get lowest(): Place | undefined {
    return this.#entries[0]?.start;
  }

  add(delivery: Delivery, start: Place): void {
    const entry: Entry = { window: this, start, settled: false };
    (delivery as Tracked)[ENTRY] = entry;
    this.#entries.push(entry);
  }

  /** Deliveries that are not of this window are left out. */
  settle(deliveries: Iterable<Delivery>): void {
    for (const delivery of deliveries) {
      const entry = (delivery as Tracked)[ENTRY];
      if (entry?.window === this) entry.settled = true;
    }
    const lowest = this.#entries.findIndex(({ settled }) => !settled);
    if (lowest === -1) this.#entries = [];
    else if (lowest > 0) this.#entries.splice(0, lowest);
  }
}
