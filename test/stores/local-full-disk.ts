// Completes ids on a file until it cannot grow any more: `node local-full-disk.ts <file>`. Tells how many, and the error.
import { claimOne, completeOne, ledgerOn } from './local-support.ts';

const { store, inbox } = await ledgerOn(process.argv[2]!);
let completed = 0;
try {
  for (; ; completed++) await completeOne(inbox, `m${completed}`, 'r'.repeat(1_000));
} catch (error) {
  // The store lives: it says the same again, and closes.
  const again = await claimOne(inbox, 'other').catch((thrown: { code: string }) => thrown);
  if (!('code' in again)) throw new Error('there was room after all', { cause: error });
  console.error(JSON.stringify({ completed, code: (error as { code: string }).code }));
}
await store.close();
