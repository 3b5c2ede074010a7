// The hand-written services as `nevertwice verify` takes any handler: one function of one message.
import type { Payment } from '../payment.ts';
import { openWallet, WALLET_TABLES, type Wallet } from '../wallet.ts';
import { pay as payCheckThenAct } from './check-then-act.ts';
import { pay as payMarkFirst } from './mark-first.ts';
import { pay as payNaive } from './naive.ts';
import type { Handle } from './one-by-one.ts';

let wallet: Wallet | undefined;
const onPayment = (pay: Handle) => (payment: Payment) => {
  wallet ??= openWallet(process.env.DATABASE_FILE ?? ':memory:');
  return pay(wallet, payment, async () => undefined);
};

export const naive = onPayment(payNaive);
export const checkThenAct = onPayment(payCheckThenAct);
export const markFirst = onPayment(payMarkFirst);

export const verify = {
  message: { id: 'p1', customer: 'alice', cents: 500 },
  schema: WALLET_TABLES,
  env: { DATABASE_FILE: 'sqlite' },
};
