import { NevertwiceError } from '../../errors.ts';
import type { ConsumerRegistration } from '../../ports/store.ts';
import { assertNamed } from '../registration.ts';
import type { Connection } from './connection.ts';
import type { RedisSettings } from './options.ts';
import { register } from './scripts/register.ts';

const SLOTS_IN_CLUSTER = 16;

/** What is kept of a consumer under its name. */
interface Registered {
  readonly signature: string;
  readonly slots: number;
}

/** The consumers that have ever started, in one hash. */
export class Consumers {
  readonly #connection: Connection;
  readonly #settings: RedisSettings;
  readonly #key: string;

  constructor(connection: Connection, settings: RedisSettings) {
    this.#connection = connection;
    this.#settings = settings;
    this.#key = `${settings.prefix}consumers`;
  }

  /** Registers a consumer, or compares it with what is kept. Returns its number of slots. Throws NT_CONFIG. */
  async register(consumer: ConsumerRegistration): Promise<number> {
    assertNamed(consumer);
    const { name, signature } = consumer;
    if (!name.isWellFormed()) {
      throw new NevertwiceError('NT_CONFIG', "the consumer's name holds half a surrogate pair, which no key can hold");
    }
    const slots = this.#settings.slots ?? (this.#connection.cluster ? SLOTS_IN_CLUSTER : 1);
    const ours: Registered = { signature, slots };
    const reply = await this.#connection.run(register, [this.#key], [name, JSON.stringify(ours)]);
    const kept = JSON.parse(String(reply)) as Registered;
    if (kept.signature !== signature) {
      throw new NevertwiceError(
        'NT_CONFIG',
        `consumer ${JSON.stringify(name)} made its ids with ${kept.signature} and now starts with ${signature}: everything in flight would be done twice; keep the identity or use a new consumer name`,
      );
    }
    if (this.#settings.slots !== undefined && kept.slots !== slots) {
      throw new NevertwiceError(
        'NT_CONFIG',
        `consumer ${JSON.stringify(name)} keeps its ids in slots: ${kept.slots} and now starts with ${slots}: it would find none of them; keep the number or use a new consumer name`,
      );
    }
    return kept.slots;
  }

  /** Name and number of slots of each. */
  async all(): Promise<readonly (readonly [name: string, slots: number])[]> {
    const names = (await this.#connection.send(this.#key, ['HKEYS', this.#key])) as readonly string[];
    if (names.length === 0) return [];
    const kept = (await this.#connection.send(this.#key, ['HMGET', this.#key, ...names])) as readonly string[];
    return names.map((name, i) => [name, (JSON.parse(kept[i]!) as Registered).slots] as const);
  }
}
