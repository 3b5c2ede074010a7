import { type Handle, oneByOne } from './one-by-one.ts';
import type { Service } from './service.ts';

/** Does what a delivery says. Right as long as every message comes once. */
export const pay: Handle = async (wallet, payment, reach) => {
  await reach('claim', 'before');
  await reach('claim', 'after');
  await reach('handle', 'before');
  wallet.credit(payment);
  await reach('handle', 'after');
  await reach('record', 'before');
  await reach('record', 'after');
};

export const naive: Service = oneByOne(pay);
