import { type Handle, oneByOne } from './one-by-one.ts';
import type { Service } from './service.ts';

/** Looks whether the id is known, credits, then records the id: doubles whatever dies or runs twice between these steps. */
export const pay: Handle = async (wallet, payment, reach) => {
  await reach('claim', 'before');
  if (wallet.knows(payment.id)) return;
  await reach('claim', 'after');
  await reach('handle', 'before');
  wallet.credit(payment);
  await reach('handle', 'after');
  await reach('record', 'before');
  wallet.record(payment.id);
  await reach('record', 'after');
};

export const checkThenAct: Service = oneByOne(pay);
