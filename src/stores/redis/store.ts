import { NevertwiceError } from '../../errors.ts';
import type { Attempts } from '../../ports/attempts.ts';
import type { Letters } from '../../ports/letters.ts';
import type {
  ConsumerRegistration,
  Counts,
  DeadLetter,
  LeaseInbox,
  LeaseStore,
  Positions,
  StoreCapabilities,
} from '../../ports/store.ts';
import { redisAttempts } from './attempts.ts';
import { Connection } from './connection.ts';
import { Consumers } from './consumers.ts';
import { RedisInbox } from './inbox.ts';
import { ConsumerKeys } from './keys.ts';
import { RedisDeadLetters } from './letters.ts';
import { type RedisSettings, retentionOf } from './options.ts';
import type { RedisPort } from './port.ts';
import { counts as countsScript } from './scripts/counts.ts';
import { checkServer, evictedKeys } from './server.ts';

const PROBE_TTL_MS = '60000';

/** A lease store in Redis. */
export interface RedisStore extends LeaseStore {
  /** Dead letters of a consumer, oldest first. */
  deadLetters(consumer: string): Promise<readonly DeadLetter[]>;
  /**
   * Keys that the server has evicted since its start, in a cluster of all masters. Anything above 0 may be an id that was
   * done and is forgotten. `ping` and `stats` ask too, and warn (NT_EVICTED) when it has risen.
   */
  evictedKeys(): Promise<number>;
}

export class InRedis implements RedisStore {
  readonly promise = 'at-least-once';
  readonly name = 'redis';
  readonly capabilities: StoreCapabilities = {
    overlap: 'a lease store has no transaction for handlers to overlap in',
    connections: undefined,
  };
  readonly positions: Positions;
  readonly attempts: Attempts;
  readonly letters: Letters = {
    list: (consumer, filter, page) => this.#lettersOf(consumer).list(filter, page),
    begin: (consumer, id, note, edit) => this.#lettersOf(consumer).begin(id, note, edit),
    close: (consumer, id) => this.#lettersOf(consumer).close(id),
  };
  readonly #settings: RedisSettings;
  readonly #connection: Connection;
  readonly #consumers: Consumers;
  readonly #unwatch: () => void;
  #staleCalls = 0;
  #evicted: number | undefined;
  #checking: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(port: RedisPort, settings: RedisSettings) {
    this.#settings = settings;
    this.#connection = new Connection(port, settings.timeoutMs);
    this.#consumers = new Consumers(this.#connection, settings);
    this.#unwatch = port.watch();
    this.attempts = redisAttempts(this.#connection, consumer => {
      this.#assertOpen();
      return this.#keysOf(consumer);
    });
    this.positions = {
      load: async (consumer, lane) => {
        const key = this.#keysOf(consumer).positions;
        return ((await this.#send(key, ['HGET', key, lane])) as string | null) ?? undefined;
      },
      save: async (consumer, lane, position) => {
        const key = this.#keysOf(consumer).positions;
        await this.#send(key, ['HSET', key, lane, position]);
      },
    };
  }

  get staleCalls(): number {
    return this.#staleCalls;
  }

  async open(consumer: ConsumerRegistration): Promise<LeaseInbox> {
    this.#assertOpen();
    await checkServer(this.#connection, this.#settings.allowEviction);
    const keys = this.#keysOf(consumer.name, await this.#consumers.register(consumer));
    this.#evicted ??= await evictedKeys(this.#connection);
    this.#watchEvictions();
    return new RedisInbox({
      connection: this.#connection,
      keys,
      letters: new RedisDeadLetters(this.#connection, consumer.name, keys),
      settings: this.#settings,
      retentionMs: retentionOf(this.#settings, consumer.redeliveryHorizonMs),
      assertOpen: () => this.#assertOpen(),
      stale: calls => {
        this.#staleCalls += calls;
      },
    });
  }

  #watchEvictions(): void {
    // It may have been closed while the server was asked.
    if (this.#closed || this.#checking !== undefined) return;
    // A server that is away is told of by whoever needs it.
    const check = () => void this.evictedKeys().catch(() => undefined);
    this.#checking = setInterval(check, this.#settings.evictionCheckMs).unref();
  }

  // A server that answers and cannot write, a replica or one with a full disk, is down for us: so the probe writes.
  async ping(): Promise<void> {
    const key = `${this.#settings.prefix}probe`;
    await this.#send(key, ['SET', key, '', 'PX', PROBE_TTL_MS]);
    await this.evictedKeys();
  }

  async stats(): Promise<readonly Counts[]> {
    this.#assertOpen();
    await this.evictedKeys();
    const consumers = await this.#consumers.all();
    return Promise.all(consumers.map(([name, slots]) => this.#countsOf(name, this.#keysOf(name, slots))));
  }

  async deadLetters(consumer: string): Promise<readonly DeadLetter[]> {
    return this.#lettersOf(consumer).all();
  }

  async evictedKeys(): Promise<number> {
    this.#assertOpen();
    const now = await evictedKeys(this.#connection);
    // Lower after a restart of the server, which counts from 0.
    if (this.#evicted !== undefined && now > this.#evicted) {
      process.emitWarning(
        `Redis has evicted ${now - this.#evicted} keys: messages that were done may be done again; set maxmemory-policy noeviction or give it more memory`,
        { type: 'NevertwiceWarning', code: 'NT_EVICTED' },
      );
    }
    this.#evicted = now;
    return now;
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#checking);
    this.#unwatch();
  }

  async #countsOf(consumer: string, keys: ConsumerKeys): Promise<Counts> {
    const retention = [String(retentionOf(this.#settings))];
    const slots = await Promise.all(
      Array.from({ length: keys.slots }, (_, slot) =>
        this.#connection.run(countsScript, [keys.counts(slot)], retention),
      ),
    );
    const rows = slots as readonly (readonly [string, string | null, string | null])[];
    return {
      consumer,
      processed: rows.reduce((sum, [many]) => sum + Number(many), 0),
      deadLetters: await this.#lettersOf(consumer).count(),
      oldest: extreme(
        rows.map(row => row[1]),
        Math.min,
      ),
      newest: extreme(
        rows.map(row => row[2]),
        Math.max,
      ),
    };
  }

  #lettersOf(consumer: string): RedisDeadLetters {
    this.#assertOpen();
    return new RedisDeadLetters(this.#connection, consumer, this.#keysOf(consumer));
  }

  /** Without the number of slots, for what is not kept by slot. */
  #keysOf(consumer: string, slots = 1): ConsumerKeys {
    return new ConsumerKeys(this.#settings.prefix, consumer, slots);
  }

  #send(key: string, command: readonly string[]): Promise<unknown> {
    this.#assertOpen();
    return this.#connection.send(key, command);
  }

  #assertOpen(): void {
    if (this.#closed) throw new NevertwiceError('NT_CONFIG', 'the redis store was closed');
  }
}

function extreme(times: readonly (string | null)[], pick: (...times: number[]) => number): Date | undefined {
  const known = times.flatMap(time => (time === null ? [] : [Number(time)]));
  return known.length === 0 ? undefined : new Date(pick(...known));
}
