import { openWallet } from '../wallet.ts';
import { consumeOneByOne } from './one-by-one.ts';
import type { Service } from './service.ts';

/** Does what a delivery says. Right as long as every message comes once. */
export const naive: Service = async around => {
  const { reach } = around;
  const wallet = openWallet(around.file);
  await consumeOneByOne(around, async payment => {
    await reach('claim', 'before');
    await reach('claim', 'after');
    await reach('handle', 'before');
    wallet.credit(payment);
    await reach('handle', 'after');
    await reach('record', 'before');
    await reach('record', 'after');
  });
};
