import { type Handle, oneByOne } from './one-by-one.ts';
import type { Service } from './service.ts';

/** Records the id in one atomic step, then credits: two can never win, but whoever dies in between has lost the payment. */
export const pay: Handle = async (wallet, payment, reach) => {
  await reach('claim', 'before');
  if (!wallet.record(payment.id)) return;
  await reach('claim', 'after');
  await reach('handle', 'before');
  wallet.credit(payment);
  await reach('handle', 'after');
  await reach('record', 'before');
  await reach('record', 'after');
};

export const markFirst: Service = oneByOne(pay);
