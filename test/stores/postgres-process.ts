import { expect } from 'vitest';
import { createInbox, type Inbox, type TransactionalStore } from '../../src/index.ts';

export const forbidden = expect.objectContaining({ code: 'NT_TX_FORBIDDEN' });
export const closed = expect.objectContaining({ code: 'NT_TX_CLOSED' });

let names = 0;

/** A consumer name that no other test of the file has. */
export function freshName(): string {
  return `pay ${names++}`;
}

/** Processes one message, the same each time, through the handle of a store. */
export function processOn<Tx>(store: TransactionalStore<Tx>, timeoutMs = 20_000, name = freshName()) {
  const inbox: Inbox<TransactionalStore<Tx>> = createInbox({ name, store, timeoutMs });
  return (work: (tx: Tx) => unknown) =>
    inbox.process({ id: 'm1', body: {} }, async (_, context) => {
      await work(context.tx);
    });
}
