/** A record as the client decodes it, control records among them. */
export interface RawMessage {
  readonly offset: string;
  readonly key: Buffer | null;
  readonly isControlRecord?: boolean;
  readonly batchContext?: { readonly producerId?: string; readonly inTransaction?: boolean };
}

/** The type in the key of a control record, behind the key's version. */
const ABORT = 0;

/**
 * Without the records whose transaction is aborted by a marker in the same fetch.
 *
 * The client has left out most of these already. But it takes the broker's list of aborted transactions for sorted by where
 * they begin, and it is sorted by where they end: where two overlap, it finds the first one's beginning too late. A transaction
 * that is longer than a fetch has its marker in a later one, and there the client's own word stands.
 */
export function withoutAborted<M extends RawMessage>(
  messages: readonly M[],
  fetched: readonly RawMessage[] = [],
): readonly M[] {
  if (!fetched.some(isAbort)) return messages;
  const aborted = new Set<string>();
  /** Of each producer, whether its next marker is an abort. */
  const aborts = new Map<string | undefined, boolean>();
  for (const message of fetched.toReversed()) {
    const { producerId, inTransaction } = message.batchContext ?? {};
    if (message.isControlRecord === true) aborts.set(producerId, isAbort(message));
    else if (inTransaction === true && aborts.get(producerId) === true) aborted.add(message.offset);
  }
  return messages.filter(({ offset }) => !aborted.has(offset));
}

function isAbort({ isControlRecord, key }: RawMessage): boolean {
  return isControlRecord === true && key !== null && key.length >= 4 && key.readInt16BE(2) === ABORT;
}
