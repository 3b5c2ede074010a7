import type { Unit } from '../ports/store.ts';
import { derivedId } from './derived-id.ts';
import { type OutboxAdd, type OutboxMessage, rowOf } from './row.ts';

/** What the handler of one message adds. A new one for each try, so that the ids of the tries are the same. */
export class Adder implements OutboxAdd {
  readonly #unit: Unit<unknown>;
  readonly #consumer: string;
  readonly #messageId: string;
  #ofTopic: Map<string, number> | undefined;
  #used = false;

  constructor(unit: Unit<unknown>, consumer: string, messageId: string) {
    this.#unit = unit;
    this.#consumer = consumer;
    this.#messageId = messageId;
    // Handlers take it out of the context and may pass it on.
    this.add = this.add.bind(this);
  }

  /** True once anything was added. */
  get used(): boolean {
    return this.#used;
  }

  add(message: OutboxMessage): Promise<void> {
    this.#used = true;
    return this.#unit.addToOutbox(() => rowOf(message, topic => this.#derive(topic)));
  }

  #derive(topic: string): string {
    this.#ofTopic ??= new Map();
    const nth = this.#ofTopic.get(topic) ?? 0;
    this.#ofTopic.set(topic, nth + 1);
    return derivedId(this.#consumer, this.#messageId, topic, nth);
  }
}
