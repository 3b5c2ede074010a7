import { randomUUID } from 'node:crypto';
import { createConsumer, type LeaseStore } from '../../src/index.ts';
import type { Contestant, Measure } from '../contest.ts';
import { dueMs, type Paced, PacedLane, pacedSource } from './paced.ts';

/** What is done for each message. */
export type Work = () => Promise<void> | void;

/** Each lane in order and acked, and nobody asks whether it was there before. */
export function withoutDeduplication(id: string, paced: Paced, work: Work): Contestant {
  const effects = new Effects(paced);
  return {
    id,
    events: paced.events,
    async prepare() {
      effects.reset();
      return async () => {
        const startMs = performance.now();
        effects.started(startMs);
        const lane = async (n: number) => {
          const paces = new PacedLane(paced, n, startMs);
          for (let taken = await paces.take(500); taken.length > 0; taken = await paces.take(500)) {
            for (const number of taken) {
              await work();
              effects.add(String(number));
            }
          }
        };
        await Promise.all(Array.from({ length: paced.lanes }, (_, n) => lane(n)));
      };
    },
    check: async () => effects.check(),
    more: () => effects.latency(),
  };
}

/** `handle` on a lease store, with its defaults. */
export function onLeases(id: string, paced: Paced, work: Work, open: () => Promise<LeaseStore>): Contestant {
  const effects = new Effects(paced);
  let store: LeaseStore | undefined;
  return {
    id,
    events: paced.events,
    async prepare() {
      effects.reset();
      await store?.close();
      store = await open();
      // Other ids in every run, as long as real ones.
      const prefix = randomUUID().slice(0, 28);
      const consumer = createConsumer({
        name: `bench-${randomUUID()}`,
        source: pacedSource(
          paced,
          n => `${prefix}${String(n).padStart(8, '0')}`,
          startMs => effects.started(startMs),
        ),
        store,
        concurrency: paced.lanes,
        handle: async message => {
          await work();
          effects.add(message.id.slice(28));
        },
      });
      return async () => {
        const { processed } = await consumer.run();
        if (processed !== paced.events) throw new Error(`the summary says ${processed}`);
      };
    },
    async check() {
      effects.check();
      await store?.close();
      store = undefined;
    },
    more: () => effects.latency(),
  };
}

/** Each message once, or the run does not count. */
class Effects {
  readonly #paced: Paced;
  readonly #seen = new Set<number>();
  readonly #lateMs: number[] = [];
  #count = 0;
  #startMs = 0;

  constructor(paced: Paced) {
    this.#paced = paced;
  }

  reset(): void {
    this.#seen.clear();
    this.#lateMs.length = 0;
    this.#count = 0;
  }

  add(number: string): void {
    this.#count++;
    this.#seen.add(Number(number));
    if (this.#paced.latency === true)
      this.#lateMs.push(performance.now() - this.#startMs - dueMs(this.#paced, Number(number)));
  }

  started(startMs: number): void {
    this.#startMs = startMs;
  }

  /** From when a message was due to its effect, the millisecond of work in it. */
  latency(): Readonly<Record<string, Measure>> {
    if (this.#paced.latency !== true) return {};
    const sorted = this.#lateMs.toSorted((a, b) => a - b);
    const at = (share: number) => ({ value: sorted[Math.floor(sorted.length * share)]!, unit: 'ms' });
    const mean = sorted.reduce((sum, ms) => sum + ms, 0) / sorted.length;
    return { mean: { value: mean, unit: 'ms' }, p50: at(0.5), p99: at(0.99) };
  }

  check(): void {
    const { events } = this.#paced;
    if (this.#seen.size === events && this.#count === events) return;
    throw new Error(`${this.#count} effects of ${this.#seen.size} messages instead of ${events}`);
  }
}
