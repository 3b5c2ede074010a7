import type { WaitingRow } from '../ports/outbox.ts';
import { type Destination, type Failure, failureFrom, late, messageFrom } from './destination.ts';

export interface Publishing {
  readonly destination: Destination;
  /** Keys that are in work at once, where the destination takes one message at a time. */
  readonly overlap: number;
  readonly timeoutMs: number;
  /** A stop has reached its deadline. */
  readonly abort: AbortSignal;
  /** False when nothing more may be begun: the lease has run out, or the relay stops. */
  mayGoOn(): boolean;
}

/** What became of the rows: those that are in neither were not begun, and come again. */
export interface Published {
  readonly acked: WaitingRow[];
  readonly failed: { readonly row: WaitingRow; readonly failure: Failure }[];
}

/**
 * Publishes rows in the order of their numbers within each key: one is begun only once the one before it is acknowledged, and
 * a key ends at its first failure. So each id is published for the first time in the order of the commits, whoever else
 * publishes beside us.
 */
export async function publish(rows: readonly WaitingRow[], how: Publishing): Promise<Published> {
  const published: Published = { acked: [], failed: [] };
  if (rows.length === 0) return published;
  if (how.destination.publishAll !== undefined) await inOne(rows, how, published);
  else await byKey(rows, how, published);
  return published;
}

async function inOne(rows: readonly WaitingRow[], how: Publishing, published: Published): Promise<void> {
  // A part at a time: a destination may have something to fence each off with.
  for (const ofPart of Map.groupBy(rows, row => row.part).values()) {
    if (!how.mayGoOn() || isDown(published)) return;
    await whole(ofPart, how, published);
  }
}

/** All of them, or, where one is refused, each key by itself and at last each row, to find out which. */
async function whole(rows: readonly WaitingRow[], how: Publishing, published: Published): Promise<void> {
  const failure = await attempt(rows, how);
  if (failure === undefined) published.acked.push(...rows);
  else if (failure.kind !== 'refused' || rows.length === 1) published.failed.push({ row: rows[0]!, failure });
  else {
    const keys = chains(rows);
    for (const chain of keys) {
      if (!how.mayGoOn() || isDown(published)) return;
      if (keys.length > 1) await whole(chain, how, published);
      else await oneByOne(chain, how, published);
    }
  }
}

async function byKey(rows: readonly WaitingRow[], how: Publishing, published: Published): Promise<void> {
  const waiting = chains(rows)[Symbol.iterator]();
  const work = async () => {
    for (const chain of waiting) {
      if (isDown(published)) return;
      await oneByOne(chain, how, published);
    }
  };
  await Promise.all(Array.from({ length: how.overlap }, work));
}

async function oneByOne(chain: readonly WaitingRow[], how: Publishing, published: Published): Promise<void> {
  for (const row of chain) {
    if (!how.mayGoOn()) return;
    const failure = await attempt([row], how);
    if (failure !== undefined) {
      published.failed.push({ row, failure });
      return;
    }
    published.acked.push(row);
  }
}

function isDown({ failed }: Published): boolean {
  return failed.some(({ failure }) => failure.kind === 'down');
}

/** The rows of each key, in order; one without a key is alone. */
function chains(rows: readonly WaitingRow[]): readonly (readonly WaitingRow[])[] {
  return [...Map.groupBy(rows, row => (row.key === undefined ? row.seq : `${row.topic}\0${row.key}`)).values()];
}

async function attempt(rows: readonly WaitingRow[], how: Publishing): Promise<Failure | undefined> {
  const { destination, timeoutMs, abort } = how;
  const timeout = new AbortController();
  const context = { signal: AbortSignal.any([abort, timeout.signal]), part: rows[0]!.part };
  const cutOff = Promise.withResolvers<Failure>();
  const end = () => {
    timeout.abort();
    cutOff.resolve(late(timeoutMs));
  };
  const timer = setTimeout(end, timeoutMs);
  abort.addEventListener('abort', end, { once: true });
  try {
    const call = async () => {
      if (destination.publishAll !== undefined) await destination.publishAll(rows.map(messageFrom), context);
      else await destination.publish(messageFrom(rows[0]!), context);
    };
    return await Promise.race([call().then(() => undefined, failureFrom), cutOff.promise]);
  } finally {
    clearTimeout(timer);
    abort.removeEventListener('abort', end);
  }
}
