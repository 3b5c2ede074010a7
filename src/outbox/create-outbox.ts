import { randomUUID } from 'node:crypto';
import type { TransactionalStore } from '../ports/store.ts';
import { warner } from '../warnings.ts';
import { type OutboxMessage, rowOf } from './row.ts';

export interface Outbox<Tx> {
  /**
   * Creates or checks the tables. The first `add` does it by itself; await it once before you begin a transaction, since it
   * needs a connection of its own: on SQLite, and with a pool of one, it would wait for that very transaction.
   */
  open(): Promise<void>;
  /**
   * Writes the message in the transaction that you have open on `tx`, and is published exactly when you commit. It takes the
   * lock of its key until then, so add as late as you can.
   *
   * @throws NT_BAD_MESSAGE for what cannot be stored without loss, NT_OUTBOX_CLASH with `onClash: 'refuse'`: nothing was sent
   * to the database, or nothing was written, and the transaction can go on
   */
  add(tx: Tx, message: OutboxMessage): Promise<void>;
  /**
   * Tells relays to look at once, after you have committed. Without it they look at their next poll. Never waits, never
   * throws.
   */
  wake(): void;
}

/**
 * The outbox for code outside of a consumer (an HTTP route): `await outbox.add(tx, { topic, key, payload })` in your own
 * transaction. The id is a new one unless you give it: do, where the request may come again.
 */
export function createOutbox<Tx>(options: { readonly store: TransactionalStore<Tx> }): Outbox<Tx> {
  const { outbox, name } = options.store;
  const left = warner();
  return {
    open: () => outbox.open(),
    add: async (tx, message) => {
      const row = rowOf(message, () => randomUUID());
      const leftOut = await outbox.add(tx, [row]);
      if (leftOut > 0)
        left('NT_OUTBOX_CLASH', `${name}: a message was left out, as one with its id waits in the outbox already`);
    },
    wake: () => outbox.wake(),
  };
}
