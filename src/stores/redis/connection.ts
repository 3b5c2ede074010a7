import { NevertwiceError } from '../../errors.ts';
import { replyCode, storeError } from './failures.ts';
import type { RedisPort } from './port.ts';
import type { Script } from './scripts/script.ts';

const RECONNECT_EVERY_MS = 1_000;

/** A port whose commands take a bounded time, and whose errors are the library's. */
export class Connection {
  readonly #port: RedisPort;
  readonly #timeoutMs: number;
  #reconnectedMs = Number.NEGATIVE_INFINITY;

  constructor(port: RedisPort, timeoutMs: number) {
    this.#port = port;
    this.#timeoutMs = timeoutMs;
  }

  get cluster(): boolean {
    return this.#port.cluster;
  }

  /** Runs a script. `late` gets a reply that came after the time was up. */
  run(
    { sha, source }: Script,
    keys: readonly [string, ...string[]],
    args: readonly string[],
    late?: (reply: unknown) => void,
  ): Promise<unknown> {
    const rest = [String(keys.length), ...keys, ...args];
    return this.#bounded(
      keys[0],
      async signal => {
        try {
          return await this.#port.send(keys[0], ['EVALSHA', sha, ...rest], signal);
        } catch (error) {
          if (replyCode(error) !== 'NOSCRIPT') throw error;
          return this.#port.send(keys[0], ['EVAL', source, ...rest], signal);
        }
      },
      this.#timeoutMs,
      late,
    );
  }

  /** Sends one command; `waitsMs` is how long the server itself may take over it. */
  send(key: string, command: readonly string[], waitsMs = 0): Promise<unknown> {
    return this.#bounded(key, signal => this.#port.send(key, command, signal), this.#timeoutMs + waitsMs);
  }

  info(section: string): Promise<readonly string[]> {
    return this.#bounded(undefined, signal => this.#port.info(section, signal), this.#timeoutMs);
  }

  async #bounded<R>(
    key: string | undefined,
    work: (signal: AbortSignal | undefined) => Promise<R>,
    ms: number,
    late?: (reply: R) => void,
  ): Promise<R> {
    const abandoned = new AbortController();
    const timeUp = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      timeUp.reject(new NevertwiceError('NT_STORE_DOWN', `Redis did not answer within ${ms} ms`));
      abandoned.abort();
    }, ms);
    // node-redis rejects an aborted command that was sent as well, and its reply would never be heard of.
    const reply = (async () => work(late === undefined ? abandoned.signal : undefined))();
    // Nobody looks at the one that loses the race.
    timeUp.promise.catch(() => undefined);
    reply.then(
      answer => {
        if (abandoned.signal.aborted) late?.(answer);
      },
      () => undefined,
    );
    try {
      return await Promise.race([reply, timeUp.promise]);
    } catch (error) {
      if (key !== undefined && replyCode(error) === 'READONLY') this.#reconnect(key);
      throw storeError(error, this.cluster);
    } finally {
      clearTimeout(timer);
    }
  }

  // What was the master is a replica now, and the name may lead to another server by now. Not each time: a client that was
  // pointed at a replica for good would do nothing else.
  #reconnect(key: string): void {
    const now = performance.now();
    if (now - this.#reconnectedMs < RECONNECT_EVERY_MS) return;
    this.#reconnectedMs = now;
    this.#port.reconnect(key);
  }
}
