/** Header values as a list, since brokers allow a name to be repeated. Names match without regard to case. */
export interface Headers {
  /** The first value as text, or undefined. Bytes are read as UTF-8. */
  get(name: string): string | undefined;
  /** Every value in order, as the client gave it. */
  getAll(name: string): readonly (string | Uint8Array)[];
}

/**
 * One arrival of a message, as a source hands it over: bytes and where they came from, no decisions.
 * A copy of the same message is another delivery, usually with another position.
 */
export interface Delivery {
  /** The lane it came from: `topic/partition`, a FIFO group, a file. */
  readonly lane: string;
  /** Where in the source it stands, for people and dead letters: `payments/3/1042`, `payments.jsonl:17`. */
  readonly position: string | undefined;
  /** 1 for the first time that the source hands it over, when the source counts; else 1. */
  readonly attempt: number;
  readonly headers: Headers;
  /** What must stay in order inside the lane: an account, an order. */
  readonly key: string | undefined;
  readonly type: string | undefined;
  readonly time: Date | undefined;
  /** The body as it came, undecoded. */
  readonly value?: Uint8Array | string | undefined;
  /** The body already as a value, from sources that carry values and from `inbox.process`. Wins over `value`. */
  readonly body?: { readonly value: unknown } | undefined;
  readonly topic?: string | undefined;
  readonly partition?: number | undefined;
  readonly offset?: bigint | undefined;
  /** The leader's epoch when a log's record was written, where the client shows it. */
  readonly leaderEpoch?: number | undefined;
  readonly keyBytes?: Uint8Array | undefined;
  /** An id that the broker gave (SQS MessageId, AMQP message-id). Whether it is stable is the broker's business. */
  readonly brokerId?: string | undefined;
  /** Set when the source itself could not read the delivery; the text says why. It becomes a dead letter. */
  readonly fault?: string | undefined;
}

/** What a handler sees: the business fact, with the same id on every copy. */
export interface Message<Body = unknown> {
  readonly id: string;
  readonly type: string | undefined;
  readonly key: string | undefined;
  readonly time: Date | undefined;
  readonly headers: Headers;
  readonly body: Body;
  /** 1 for the first try in this process; rises with each retry of the handler and with each redelivery counted. */
  readonly attempt: number;
  readonly position: string | undefined;
}
