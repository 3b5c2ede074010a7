import type { Random } from '../support/random.ts';

/** A file of payments, and what each customer's balance must come to. */
export interface Payments {
  readonly jsonl: string;
  readonly lines: number;
  /** Distinct ids. */
  readonly payments: number;
  readonly balances: Readonly<Record<string, number>>;
}

/** About one line in ten is a copy of one of the last fifty. */
export function makePayments(random: Random, lines: number): Payments {
  const balances: Record<string, number> = {};
  const all: string[] = [];
  let payments = 0;
  while (all.length < lines) {
    if (all.length > 0 && random.chance(0.1)) {
      all.push(all[all.length - 1 - random.below(Math.min(50, all.length))]!);
      continue;
    }
    const customer = `customer-${random.below(20)}`;
    const cents = 1 + random.below(10_000);
    balances[customer] = (balances[customer] ?? 0) + cents;
    payments += 1;
    const body = { customer_id: customer, amount_cents: cents };
    all.push(JSON.stringify({ id: `payment-${payments}`, type: 'PaymentReceived', key: customer, body }));
  }
  return { jsonl: `${all.join('\n')}\n`, lines, payments, balances };
}

/** What the example's README promises for `examples/wallet/payments.jsonl`. */
export const EXPECTED: Readonly<Record<string, number>> = {
  ada: 66_290,
  bela: 34_033,
  chen: 53_923,
  dora: 34_700,
  emre: 54_288,
  fumi: 60_079,
  gil: 52_093,
  hana: 45_839,
};
