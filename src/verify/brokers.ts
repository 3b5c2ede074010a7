export type BrokerName = 'kafka' | 'rabbitmq' | 'sqs' | 'sqs-fifo' | 'nats' | 'redis-streams';

/** What can happen at a broker. What cannot is never tried: a story that cannot happen helps nobody. */
export interface BrokerRules {
  readonly name: BrokerName;
  /** A second copy may be handed to another consumer while the first one is at work. */
  readonly overlap: boolean;
  /** Why, in the words of that broker. */
  readonly overlapBecause: string;
  /** A message that was acked may come once more. */
  readonly afterAck: boolean;
  readonly afterAckBecause: string;
  /** The ack of a consumer whose message has gone to another one counts. */
  readonly staleAck: boolean;
  /** After a failure everything from it on comes again, and nothing behind it overtakes it. */
  readonly inOrder: boolean;
}

/** Why a copy comes that is another message to the broker. */
export const RESEND = 'its producer sent it again';

/** Sources: each broker's documentation, as docs/verify.md quotes it. */
export const BROKERS: Readonly<Record<BrokerName, BrokerRules>> = {
  kafka: {
    name: 'kafka',
    overlap: true,
    overlapBecause: 'rebalance: the partition went to another consumer while this one was at work',
    afterAck: true,
    afterAckBecause: RESEND,
    staleAck: false,
    inOrder: true,
  },
  rabbitmq: {
    name: 'rabbitmq',
    overlap: true,
    overlapBecause: 'the channel was closed while the consumer was at work, and the message requeued',
    afterAck: true,
    afterAckBecause: 'the ack was lost with its connection',
    staleAck: false,
    inOrder: false,
  },
  sqs: {
    name: 'sqs',
    overlap: true,
    overlapBecause: 'the visibility timeout ran out while the consumer was at work',
    afterAck: true,
    afterAckBecause: 'a standard queue may deliver a deleted message again',
    staleAck: true,
    inOrder: false,
  },
  'sqs-fifo': {
    name: 'sqs-fifo',
    overlap: true,
    overlapBecause: 'the visibility timeout ran out while the consumer was at work',
    afterAck: true,
    afterAckBecause: `${RESEND} after the five minutes in which the queue tells copies`,
    staleAck: false,
    inOrder: true,
  },
  nats: {
    name: 'nats',
    overlap: true,
    overlapBecause: 'AckWait ran out while the consumer was at work',
    afterAck: true,
    afterAckBecause: 'the ack was lost: JetStream does not confirm it',
    staleAck: true,
    inOrder: false,
  },
  'redis-streams': {
    name: 'redis-streams',
    overlap: true,
    overlapBecause: 'XAUTOCLAIM gave it to another consumer while this one was at work',
    afterAck: true,
    afterAckBecause: RESEND,
    staleAck: true,
    inOrder: false,
  },
};
