import { randomUUID } from 'node:crypto';

/** What every contestant does with a message: wallet += amount. */
export interface Payment {
  readonly wallet: number;
  readonly amount: number;
}

/** A message as the hand-written loops read it, and as the memory source takes it. */
export interface PaymentMessage {
  readonly id: string;
  /** Of the wallet, so that a wallet's payments stay in order. */
  readonly key: string;
  readonly partition: number;
  /** JSON, as a broker would hand it over: everybody parses it, for each delivery. */
  readonly value: string;
}

export function paymentOf({ value }: PaymentMessage): Payment {
  return JSON.parse(value);
}

/** Deliveries by lane, and what the wallets must hold afterwards. */
export interface Load {
  readonly lanes: readonly (readonly PaymentMessage[])[];
  /** Deliveries in all lanes together, copies included. */
  readonly events: number;
  /** Different messages among them. */
  readonly messages: number;
  /** By wallet, when every message counts once. */
  readonly once: readonly number[];
  /** By wallet, when every copy counts: what a loop without deduplication must come to. */
  readonly everyCopy: readonly number[];
}

export const WALLETS = 1_000;

/** Deliveries that one transaction takes, for everybody: the library's default `maxBatch`. */
export const BATCH = 500;

// Two whole batches back, so that the first copy is committed in another transaction than the late one's; and five more,
// so that it is no copy itself.
const LATE = 2 * BATCH + 5;

const made = new Map<string, Load>();

/**
 * Payments to 1,000 wallets in turn. Every tenth delivery is a copy, by turns of the message just before it and of one
 * from about a thousand deliveries earlier. A wallet's payments are all in one lane, as a keyed topic has it.
 */
export function loadOf(events: number, laneCount = 1): Load {
  const known = made.get(`${events} ${laneCount}`);
  if (known !== undefined) return known;
  const deliveries: PaymentMessage[] = [];
  let messages = 0;
  for (let i = 0; i < events; i++) {
    const back = i % 20 === 19 ? LATE : 1;
    const copied = i % 10 === 9 ? deliveries[i - back] : undefined;
    deliveries.push(copied ?? paymentTo(messages++ % WALLETS, laneCount));
  }
  const once = new Array<number>(WALLETS).fill(0);
  const everyCopy = [...once];
  const addTo = (wallets: number[]) => (message: PaymentMessage) => {
    const { wallet, amount } = paymentOf(message);
    wallets[wallet]! += amount;
  };
  new Set(deliveries).forEach(addTo(once));
  deliveries.forEach(addTo(everyCopy));
  const lanes = Array.from({ length: laneCount }, (_, lane) =>
    deliveries.filter(({ partition }) => partition === lane),
  );
  const load = { lanes, events, messages, once, everyCopy };
  made.set(`${events} ${laneCount}`, load);
  return load;
}

function paymentTo(wallet: number, laneCount: number): PaymentMessage {
  const amount = 1 + (wallet % 97);
  return {
    id: randomUUID(),
    key: `wallet-${wallet}`,
    partition: wallet % laneCount,
    value: JSON.stringify({ wallet, amount }),
  };
}

/** Consecutive parts of at most `BATCH` deliveries. */
export function* batchesOf(lane: readonly PaymentMessage[]): Generator<readonly PaymentMessage[]> {
  for (let at = 0; at < lane.length; at += BATCH) yield lane.slice(at, at + BATCH);
}

/** The first copy of each id, by id. */
export function firstCopies(batch: readonly PaymentMessage[]): Map<string, PaymentMessage> {
  const firsts = new Map<string, PaymentMessage>();
  for (const message of batch) if (!firsts.has(message.id)) firsts.set(message.id, message);
  return firsts;
}

/** Throws, with the first wrong wallet, unless these are the balances of all wallets. */
export function assertBalances(
  actual: readonly { readonly id: number; readonly balance: number }[],
  expected: readonly number[],
): void {
  const balances = new Map(actual.map(({ id, balance }) => [id, balance]));
  if (balances.size !== expected.length) {
    throw new Error(`there are ${balances.size} wallets instead of ${expected.length}`);
  }
  const wrong = expected.flatMap((balance, id) => (balances.get(id) === balance ? [] : [id]));
  const [first] = wrong;
  if (first === undefined) return;
  throw new Error(
    `${wrong.length} of ${expected.length} balances are wrong; wallet ${first} has ${balances.get(first)} instead of ${expected[first]}`,
  );
}
