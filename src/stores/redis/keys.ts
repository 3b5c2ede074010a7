import { crc32 } from 'node:zlib';

/** The names of one consumer's keys. What is in braces decides the hash slot, and with it the server of a cluster. */
export class ConsumerKeys {
  readonly slots: number;
  readonly #prefix: string;
  readonly #name: string;
  /** What the keys of ids begin with, by slot: put together for each id, it was felt in a batch. */
  readonly #heads: readonly string[];

  constructor(prefix: string, consumer: string, slots: number) {
    this.slots = slots;
    this.#prefix = prefix;
    // Escapes the characters that part a key and braces among them, so that no two consumers share a key.
    this.#name = encodeURIComponent(consumer);
    this.#heads = Array.from({ length: slots }, (_, slot) => `${prefix}{${this.#name}.${slot}}:`);
  }

  /** Which of the consumer's slots an id lies in, from 0. By the id alone, so that all processes agree. */
  slotOf(hex: string): number {
    return this.slots === 1 ? 0 : crc32(hex) % this.slots;
  }

  id(slot: number, hex: string): string {
    return this.#heads[slot]! + hex;
  }

  counts(slot: number): string {
    return `${this.#prefix}{${this.#name}.${slot}}/counts`;
  }

  get letters(): string {
    return `${this.#prefix}{${this.#name}}/letters`;
  }

  get letterKeys(): string {
    return `${this.#prefix}{${this.#name}}/letter-keys`;
  }

  get blocked(): string {
    return `${this.#prefix}{${this.#name}}/blocked`;
  }

  get letterNotes(): string {
    return `${this.#prefix}{${this.#name}}/letter-notes`;
  }

  get laneOwners(): string {
    return `${this.#prefix}{${this.#name}}/lane-owners`;
  }

  get attempts(): string {
    return `${this.#prefix}{${this.#name}}/attempts`;
  }

  get positions(): string {
    return `${this.#prefix}{${this.#name}}/positions`;
  }
}
