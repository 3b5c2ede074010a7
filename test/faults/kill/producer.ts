import type { MemoryBroker } from '../../../src/sources/memory/index.ts';
import type { Random } from '../../support/random.ts';
import type { Credit } from './wallet-sql.ts';

export const PARTITIONS = 4;
const WALLETS = Array.from({ length: 12 }, (_, i) => `wallet-${i}`);
/** Share of sends that are a copy of something sent before. */
const COPIES = 0.15;
/** Share of new messages that the handler refuses. */
const REFUSED = 0.03;

/** Sends credits, and the copies that real producers and brokers make of them. */
export class Producer {
  readonly #broker: MemoryBroker;
  readonly #random: Random;
  readonly #sent = new Map<string, Credit>();
  readonly #ids: string[] = [];
  /** Copies sent, by how they came about. */
  readonly copies = { redelivery: 0, resend: 0, elsewhere: 0 };

  constructor(broker: MemoryBroker, random: Random) {
    this.#broker = broker;
    this.#random = random;
  }

  get sent(): ReadonlyMap<string, Credit> {
    return this.#sent;
  }

  send(count: number): void {
    for (let i = 0; i < count; i++) {
      if (this.#ids.length > 0 && this.#random.chance(COPIES)) this.#copy();
      else this.#new();
    }
  }

  #new(): void {
    const random = this.#random;
    const n = this.#ids.length;
    // Canonical UUIDs are stored in another encoding than other ids.
    const id = random.chance(0.5) ? `payment-${n}` : uuid(random);
    const credit = { wallet: random.pick(WALLETS), cents: random.chance(REFUSED) ? 0 : 1 + random.below(100_000) };
    this.#sent.set(id, credit);
    this.#ids.push(id);
    this.#broker.send({ id, key: credit.wallet, body: credit });
  }

  /** Mostly of something recent: a copy that meets its first one still in work is the dangerous kind. */
  #copy(): void {
    const random = this.#random;
    const back = random.chance(0.8) ? Math.min(20, this.#ids.length) : this.#ids.length;
    const id = this.#ids[this.#ids.length - 1 - random.below(back)]!;
    const kind = random.pick(['redelivery', 'resend', 'elsewhere'] as const);
    this.copies[kind]++;
    if (kind !== 'elsewhere') {
      this.#broker.redeliver(id, { as: kind });
    } else {
      // A producer that partitions without the key: the copy runs in another lane, and in another process.
      const credit = this.#sent.get(id)!;
      this.#broker.send({ id, key: credit.wallet, body: credit, partition: random.below(PARTITIONS) });
    }
  }
}

function uuid(random: Random): string {
  const hex = (digits: number) => Array.from({ length: digits }, () => random.below(16).toString(16)).join('');
  return `${hex(8)}-${hex(4)}-4${hex(3)}-a${hex(3)}-${hex(12)}`;
}
