import { type BrokerRules, RESEND } from './brokers.ts';

/** One delivery: these messages, handed to one consumer. */
export interface Copy {
  readonly messages: readonly number[];
  readonly attempt: number;
  /** Why it came, where it is not the first. */
  readonly because: string | undefined;
  /** The consumer that must not get it, where there is another: the one that died with it. */
  readonly not: number | undefined;
  /** The consumer that it goes back to: the one that refused it. */
  readonly to: number | undefined;
  /** The producer sent it again: to the broker it is another message. */
  readonly resent: boolean;
}

interface Item {
  readonly messages: readonly number[];
  state: 'ready' | 'out' | 'acked';
  /** The next delivery, or the one that is out. */
  copy: Copy;
  deliveries: number;
}

/** The broker: what is ready, what is out, what was acked. */
export class Mailbox {
  readonly rules: BrokerRules;
  readonly #items: Item[];

  /** `deliveries`: the numbers of the messages that travel together. */
  constructor(rules: BrokerRules, deliveries: readonly (readonly number[])[]) {
    this.rules = rules;
    this.#items = deliveries.map(messages => ({
      messages,
      state: 'ready',
      copy: { messages, attempt: 1, because: undefined, not: undefined, to: undefined, resent: false },
      deliveries: 0,
    }));
  }

  /** What may be handed out now. */
  get ready(): readonly Copy[] {
    const open = this.#items.filter(item => item.state !== 'acked');
    const next = this.rules.inOrder ? open.slice(0, 1) : open;
    return next.filter(item => item.state === 'ready').map(item => item.copy);
  }

  get allAcked(): boolean {
    return this.#items.every(item => item.state === 'acked');
  }

  /** Most often that one of them was handed out. */
  get deliveries(): number {
    return Math.max(...this.#items.map(item => item.deliveries));
  }

  isOut(copy: Copy): boolean {
    return this.#of(copy).state === 'out';
  }

  handOut(copy: Copy): void {
    const item = this.#of(copy);
    item.state = 'out';
    item.copy = copy;
    item.deliveries++;
  }

  ack(copy: Copy): void {
    const item = this.#of(copy);
    if (item.copy === copy || this.rules.staleAck) item.state = 'acked';
  }

  /** It comes again, unless another copy has taken its place. */
  requeue(copy: Copy, because: string, where: { readonly not?: number; readonly to?: number }): void {
    const item = this.#of(copy);
    if (item.copy !== copy || item.state === 'acked') return;
    item.state = 'ready';
    item.copy = { ...this.#next(copy, because), not: where.not, to: where.to };
  }

  /** Another copy of one that is out; from now on the first is stale. */
  overlapping(copy: Copy): Copy {
    return this.#next(copy, this.rules.overlapBecause);
  }

  /** Copies of what was acked. */
  again(): readonly Copy[] {
    if (!this.rules.afterAck) return [];
    return this.#items
      .filter(item => item.state === 'acked')
      .map(item => this.#next(item.copy, this.rules.afterAckBecause));
  }

  /** Messages that are done, and that their producer sends once more: whatever the broker, it cannot know. */
  sentAgain(): readonly Copy[] {
    return this.#items
      .filter(item => item.state === 'acked' && !item.copy.resent)
      .map(item => ({ ...this.#next(item.copy, RESEND), resent: true }));
  }

  #next(copy: Copy, because: string): Copy {
    return {
      messages: copy.messages,
      attempt: this.#of(copy).copy.attempt + 1,
      because,
      not: undefined,
      to: undefined,
      resent: copy.resent,
    };
  }

  #of(copy: Copy): Item {
    return this.#items.find(item => item.messages === copy.messages)!;
  }
}
