// Completes ids on a file until it cannot grow any more: `node local-full-disk.ts <file>`. Tells how many, and the error.
import { claimOne, completeOne, ledgerOn } from './local-support.ts';

const { store, inbox } = await ledgerOn(process.argv[2]!);
let completed = 0;
try {
  for (; ; completed++) await completeOne(inbox, `m${completed}`, 'r'.repeat(1_000));
} catch (error) {
  // The store lives: it says the same again, once a small row does not fit either, and closes.
  let again: unknown;
  for (let n = 0; again === undefined; n++) {
    again = await claimOne(inbox, `other ${n}`).then(
      () => undefined,
      (thrown: { code: string }) => thrown.code,
    );
  }
  if (again !== (error as { code: string }).code) throw new Error(`then it said ${String(again)}`, { cause: error });
  console.error(JSON.stringify({ completed, code: (error as { code: string }).code }));
}
await store.close();
