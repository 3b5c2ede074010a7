import type { BrokerRequest, FromChild } from './protocol.ts';

/** What a handler may ask its broker by hand: its second argument. */
export interface Broker {
  ack(): Promise<void>;
  nack(): Promise<void>;
  /** More time for this delivery. */
  extend(): Promise<void>;
  /** Sends a message on; it is compared like every other effect. */
  publish(value: unknown): Promise<void>;
}

/** The handler's end of the broker: each request waits for its answer. */
export class Requests {
  readonly broker: Broker = {
    ack: () => this.#ask({ kind: 'ack' }),
    nack: () => this.#ask({ kind: 'nack' }),
    extend: () => this.#ask({ kind: 'extend' }),
    publish: value => this.#ask({ kind: 'publish', value }),
  };
  readonly #say: (message: FromChild) => void;
  readonly #waiting = new Map<number, PromiseWithResolvers<void>>();
  #count = 0;

  constructor(say: (message: FromChild) => void) {
    this.#say = say;
  }

  answered(request: number, error: string | undefined): void {
    const waiting = this.#waiting.get(request);
    this.#waiting.delete(request);
    if (error === undefined) waiting?.resolve();
    else waiting?.reject(new Error(error));
  }

  #ask(what: BrokerRequest): Promise<void> {
    const request = ++this.#count;
    const waiting = Promise.withResolvers<void>();
    this.#waiting.set(request, waiting);
    this.#say({ say: 'broker', request, what });
    return waiting.promise;
  }
}
