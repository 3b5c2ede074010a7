import { randomUUID } from 'node:crypto';
import { createConsumer, type LeaseStore } from '../../src/index.ts';
import type { Contestant } from '../contest.ts';
import { type Paced, PacedLane, pacedSource } from './paced.ts';

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
        source: pacedSource(paced, n => `${prefix}${String(n).padStart(8, '0')}`),
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
  };
}

/** Each message once, or the run does not count. */
class Effects {
  readonly #paced: Paced;
  readonly #seen = new Set<number>();
  #count = 0;

  constructor(paced: Paced) {
    this.#paced = paced;
  }

  reset(): void {
    this.#seen.clear();
    this.#count = 0;
  }

  add(number: string): void {
    this.#count++;
    this.#seen.add(Number(number));
  }

  check(): void {
    const { events } = this.#paced;
    if (this.#seen.size === events && this.#count === events) return;
    throw new Error(`${this.#count} effects of ${this.#seen.size} messages instead of ${events}`);
  }
}
