import type { Held, Reply } from './gate.ts';
import type { LockingPlace } from './world.ts';

/** A statement that waits for a lock. */
export interface Waiting {
  readonly held: Held;
  readonly reply: Promise<Reply>;
  readonly sinceMs: number;
  /** The backend that is made to stand still, as long as it is. */
  paused: number | undefined;
  /** It was made to stand still. */
  readonly stood: boolean;
  done: Reply | undefined;
  /** When `done` came. */
  doneMs: number;
}

/** Goes on to wait for the reply of what waits for a lock. */
export function waitFor(held: Held, reply: Promise<Reply>, paused?: number): Waiting {
  const waiting: Waiting = {
    held,
    reply,
    sinceMs: performance.now(),
    paused,
    stood: paused !== undefined,
    done: undefined,
    doneMs: 0,
  };
  void reply.then(done => {
    waiting.done = done;
    waiting.doneMs = performance.now();
  });
  return waiting;
}

/** Tells a statement that waits for a lock from one that takes its time, by asking the server. */
export class Locks {
  readonly #place: LockingPlace | undefined;
  readonly #patienceMs: number;
  readonly #backends: () => readonly number[];

  /** @param backends all that take part in the execution */
  constructor(place: LockingPlace | undefined, patienceMs: number, backends: () => readonly number[]) {
    this.#place = place;
    this.#patienceMs = patienceMs;
    this.#backends = backends;
  }

  /**
   * The reply; undefined once the statement waits for a lock.
   *
   * @param paused it has been told to stand still, which needs nobody else
   */
  async orBlocked(held: Held, reply: Promise<Reply>, paused = false): Promise<Reply | undefined> {
    const locks = this.#place;
    // It says itself that it has met a lock.
    if (held.lockMet !== undefined) return Promise.race([reply, held.lockMet().then(() => undefined)]);
    let done: Reply | undefined;
    const settled = reply.then(value => {
      done = value;
    });
    const sinceMs = performance.now();
    for (let round = 0; ; round++) {
      const others = paused || this.#backends().length > 1;
      if (held.place !== 'postgres' || locks === undefined || !others) {
        await settled;
        return done;
      }
      await Promise.race([settled, pause(round < 3 ? 2 : 5)]);
      if (done !== undefined) return done;
      const { backend } = held;
      if (backend === undefined) continue;
      const blocked = await locks.blocked([backend], this.#backends());
      if (done === undefined && blocked.has(backend) && performance.now() - sinceMs >= this.#patienceMs)
        return undefined;
    }
  }
}

/** Resolves after so long, and keeps no process alive. */
export function pause(ms: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, ms).unref());
}
