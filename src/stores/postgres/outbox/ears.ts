import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { describeError } from '../../../errors.ts';
import type { WakeListener } from '../../../ports/outbox.ts';
import type { Listening } from '../driver.ts';

/** How often the way is tried: a half-open connection and a pooler that keeps LISTEN to itself say nothing by themselves. */
const HEARTBEAT_MS = 5_000;
/** How long a call to ourselves may take. */
const ECHO_WITHIN_MS = 2_000;
/** The wait before another connection. */
const AGAIN_MS = 1_000;
const AGAIN_AT_MOST_MS = 60_000;

interface Line {
  listen(heard: (payload: string) => void): Promise<Listening>;
  /** Says something on the channel, by another connection. */
  call(payload: string): Promise<void>;
}

/**
 * Listens for other processes. It calls itself from time to time: what does not come back within seconds means that nothing
 * would, and then the connection is replaced. Until it works relays only poll.
 */
export class Ears {
  readonly #listener: WakeListener;
  readonly #line: Line;
  readonly #over = new AbortController();
  readonly #done: Promise<void>;

  constructor(listener: WakeListener, line: Line) {
    this.#listener = listener;
    this.#line = line;
    this.#done = this.#stayOpen();
  }

  async close(): Promise<void> {
    this.#over.abort();
    await this.#done;
  }

  async #stayOpen(): Promise<void> {
    const { signal } = this.#over;
    for (let failures = 0; !signal.aborted; ) {
      let reason: string;
      try {
        const works = () => {
          failures = 0;
          this.#listener.state(true, undefined);
          // What was committed while nobody heard.
          this.#listener.woken();
        };
        reason = await this.#hear(works);
      } catch (error) {
        reason = describeError(error);
      }
      if (signal.aborted) return;
      this.#listener.state(false, reason);
      const wait = Math.min(AGAIN_MS * 2 ** failures++, AGAIN_AT_MOST_MS);
      await sleep(wait, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  /** Hears until the connection is lost, and says why. */
  async #hear(works: () => void): Promise<string> {
    const { signal } = this.#over;
    const me = randomUUID();
    let echo: (() => void) | undefined;
    const listening = await this.#line.listen(payload => {
      if (payload === me) echo?.();
      // Calls of other relays to themselves are none of our business.
      else if (payload === '') this.#listener.woken();
    });
    try {
      const closed = listening.closed.then(() => 'the connection was lost');
      for (let first = true; !signal.aborted; first = false) {
        const echoed = new Promise<undefined>(resolve => {
          echo = () => resolve(undefined);
        });
        // The connection that it goes by may be half-open too.
        const called = this.#line.call(me).then(() => echoed);
        called.catch(() => undefined);
        const late = this.#after(
          ECHO_WITHIN_MS,
          'nothing that is notified comes through, as behind a pooler in transaction mode',
        );
        const lost = await Promise.race([called, closed, late]);
        if (lost !== undefined) return lost;
        if (first) works();
        const gone = await Promise.race([this.#after(HEARTBEAT_MS, undefined), closed]);
        if (gone !== undefined) return gone;
      }
      return 'closed';
    } finally {
      listening.close();
    }
  }

  /** Resolves after some time, or at once when it is over. */
  #after<T>(ms: number, value: T): Promise<T> {
    return sleep(ms, value, { signal: this.#over.signal, ref: false }).catch(() => value);
  }
}
