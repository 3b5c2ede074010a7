import { AsyncLocalStorage } from 'node:async_hooks';
import { NevertwiceError } from '../../errors.ts';

/** A file by its real path, or a database object that has none. */
export type QueueKey = string | object;

interface Line {
  tail: Promise<void>;
  waiting: number;
}

interface Holder {
  readonly key: QueueKey;
  readonly outer: Holder | undefined;
  active: boolean;
}

// One line per file for the whole process, however many stores are on it, since a file has one writer. Lines without
// anybody in them are dropped.
const lines = new Map<QueueKey, Line>();
const holders = new AsyncLocalStorage<Holder>();

/**
 * Runs `work` when everything that was queued for `key` before has ended, so that two asynchronous transactions never
 * interleave on one connection. Code that already runs inside the line would wait for itself; it is refused.
 */
export async function exclusively<R>(key: QueueKey, work: () => Promise<R>): Promise<R> {
  const outer = holders.getStore();
  refuseWaitingForOneself(key, outer);
  const line = lines.get(key) ?? { tail: Promise.resolve(), waiting: 0 };
  lines.set(key, line);
  const before = line.tail;
  const turn = Promise.withResolvers<void>();
  line.tail = turn.promise;
  line.waiting++;
  await before;
  const holder: Holder = { key, outer, active: true };
  try {
    return await holders.run(holder, work);
  } finally {
    holder.active = false;
    if (--line.waiting === 0) lines.delete(key);
    turn.resolve();
  }
}

function refuseWaitingForOneself(key: QueueKey, innermost: Holder | undefined): void {
  for (let holder = innermost; holder !== undefined; holder = holder.outer) {
    if (holder.active && holder.key === key) {
      throw new NevertwiceError(
        'NT_TX_FORBIDDEN',
        'code inside a transaction asked for another one on the same SQLite file and would wait for itself; write through the handle that it was given',
      );
    }
  }
}
