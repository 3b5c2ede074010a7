import { openWallet } from '../wallet.ts';
import { consumeOneByOne } from './one-by-one.ts';
import type { Service } from './service.ts';

/** Records the id in one atomic step, then credits: two can never win, but whoever dies in between has lost the payment. */
export const markFirst: Service = async around => {
  const { reach } = around;
  const wallet = openWallet(around.file);
  await consumeOneByOne(around, async payment => {
    await reach('claim', 'before');
    if (!wallet.record(payment.id)) return;
    await reach('claim', 'after');
    await reach('handle', 'before');
    wallet.credit(payment);
    await reach('handle', 'after');
    await reach('record', 'before');
    await reach('record', 'after');
  });
};
