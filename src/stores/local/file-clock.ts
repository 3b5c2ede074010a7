import type { Connection } from '../sqlite/connection.ts';
import type { LocalClock } from './options.ts';

/**
 * The time of one file, in whole milliseconds. It never runs backwards: the file holds the latest time that anybody has
 * written with, or a wall clock that was set back would give the ended leases new life, and have tokens fall.
 */
export class FileClock {
  readonly #clock: LocalClock;
  #ahead = 0;

  constructor(clock: LocalClock) {
    this.#clock = clock;
  }

  /** Now, kept in the file with the open transaction. */
  tick(connection: Connection): number {
    const own = this.#own();
    const update = 'UPDATE clock SET now = max(now, ?) RETURNING now';
    return this.#notBefore(connection.all<{ now: number }>(update, BigInt(own))[0]?.now, own);
  }

  /** Now, without a trace in the file. */
  read(connection: Connection): number {
    return this.#notBefore(connection.all<{ now: number }>('SELECT now FROM clock')[0]?.now, this.#own());
  }

  #own(): number {
    return Math.floor(this.#clock.now()) + this.#ahead;
  }

  // Goes on from there at its own pace. Standing still until the wall clock has caught up would keep the leases of dead
  // owners for as long.
  #notBefore(mark: number | undefined, own: number): number {
    const now = Math.max(own, mark ?? 0);
    this.#ahead += now - own;
    return now;
  }
}
