import { randomBytes, randomUUID } from 'node:crypto';
import { WALLETS } from '../sql/load.ts';

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
  /** Records, copies included. */
  readonly events: number;
  /** Different messages among them. */
  readonly messages: number;
  /** By wallet. */
  readonly once: readonly number[];
  /** Made while they are sent: kept, they would be garbage to look through in every run that is timed. */
  sent(): Iterable<Sent>;
}

const COPY_EVERY = 10;
const padding = randomBytes(450).toString('hex');

/**
 * Records of 1 kB for 1,000 wallets by key; with `copies`, every tenth of them sent again at an offset of its own. For
 * those who count every record, as a loop without deduplication does, a topic without.
 */
export function topicLoad(events: number, partitions: number, { copies = true } = {}): TopicLoad {
  const messages = copies ? events - Math.floor(events / COPY_EVERY) : events;
  return {
    topic: `payments-${events}-${partitions}${copies ? '' : '-unique'}`,
    partitions,
    events,
    messages,
    once: balancesAfter(messages),
    *sent() {
      let next = 0;
      let copied: Sent | undefined;
      for (let i = 0; i < events; i++) {
        const at = i % COPY_EVERY;
        if (copies && at === COPY_EVERY - 1) {
          yield copied!;
          continue;
        }
        const sent = payment(next++, partitions);
        if (at === 4) copied = sent;
        yield sent;
      }
    },
  };
}

/** The n-th message, counted from 0. A wallet's are all in one partition, and so is the copy of one. */
export function payment(n: number, partitions: number): Sent {
  const wallet = n % WALLETS;
  return {
    key: `wallet-${wallet}`,
    partition: wallet % partitions,
    value: JSON.stringify({ wallet, amount: amountFor(wallet), padding }),
    headers: { 'message-id': randomUUID() },
  };
}

/** What the wallets hold after the first so many messages, each counted once. */
export function balancesAfter(messages: number): readonly number[] {
  return Array.from({ length: WALLETS }, (_, wallet) => {
    const payments = Math.floor(messages / WALLETS) + (wallet < messages % WALLETS ? 1 : 0);
    return payments * amountFor(wallet);
  });
}

function amountFor(wallet: number): number {
  return 1 + (wallet % 97);
}
