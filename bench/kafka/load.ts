import { randomBytes, randomUUID } from 'node:crypto';

export interface KafkaPayment {
  readonly wallet: number;
  readonly amount: number;
}

export interface Sent {
  readonly key: string;
  readonly value: string;
  readonly partition: number;
  readonly headers: { readonly 'message-id': string };
}

/** The records of one topic, and what the wallets must hold after each message counted once. */
export interface TopicLoad {
  readonly topic: string;
  readonly partitions: number;
  readonly sent: readonly Sent[];
  /** Records, copies included. */
  readonly events: number;
  /** Different messages among them. */
  readonly messages: number;
  /** By wallet. */
  readonly once: readonly number[];
}

const WALLETS = 1_000;
const made = new Map<string, TopicLoad>();

/** Records of 1 kB for 1,000 wallets by key, every tenth of them sent again at an offset of its own. */
export function topicLoad(events: number, partitions: number): TopicLoad {
  const topic = `payments-${events}-${partitions}`;
  const known = made.get(topic);
  if (known !== undefined) return known;
  const once = new Array<number>(WALLETS).fill(0);
  const padding = randomBytes(450).toString('hex');
  const sent: Sent[] = [];
  let messages = 0;
  for (let i = 0; i < events; i++) {
    // Of the same wallet, so that the copy is in the same partition.
    const copied = i % 10 === 9 ? sent[i - 5] : undefined;
    sent.push(copied ?? paymentTo(messages++ % WALLETS));
  }
  function paymentTo(wallet: number): Sent {
    const amount = 1 + (wallet % 97);
    once[wallet]! += amount;
    return {
      key: `wallet-${wallet}`,
      partition: wallet % partitions,
      value: JSON.stringify({ wallet, amount, padding }),
      headers: { 'message-id': randomUUID() },
    };
  }
  const load = { topic, partitions, sent, events, messages, once };
  made.set(topic, load);
  return load;
}
