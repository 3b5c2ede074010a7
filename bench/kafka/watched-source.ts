import type { Lane, Source } from '../../src/ports/source.ts';

/** What somebody who looks on wants to hear of a source. */
export interface Watcher {
  /** How many deliveries a settle was about, after it. */
  settled(deliveries: number): void;
  lane?(lane: Lane): void;
  /** Nothing is handed out before this resolves. */
  readonly begin?: Promise<unknown>;
}

/** The same source, with somebody who looks on. */
export function watchedSource(source: Source, watcher: Watcher): Source {
  return {
    ...source,
    receive(options) {
      const lanes = source.receive(options)[Symbol.asyncIterator]();
      return {
        [Symbol.asyncIterator]: () => ({
          async next() {
            const next = await lanes.next();
            if (next.done === true) return next;
            watcher.lane?.(next.value);
            return { done: false, value: watchedLane(next.value, watcher) };
          },
          return: async () => (await lanes.return?.()) ?? { done: true, value: undefined },
        }),
      };
    },
  };
}

function watchedLane(lane: Lane, { settled, begin }: Watcher): Lane {
  return {
    id: lane.id,
    revoked: lane.revoked,
    leaving: lane.leaving ?? lane.revoked,
    log: lane.log,
    ended: () => lane.ended?.(),
    async receive(max, signal) {
      if (begin !== undefined) await unlessAborted(begin, AbortSignal.any([signal, lane.leaving ?? lane.revoked]));
      return lane.receive(max, signal);
    },
    async settle(settlements) {
      await lane.settle(settlements);
      settled(settlements.length);
    },
  };
}

async function unlessAborted(promise: Promise<unknown>, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const aborted = Promise.withResolvers<void>();
  const abort = () => aborted.resolve();
  signal.addEventListener('abort', abort, { once: true });
  await Promise.race([promise, aborted.promise]);
  signal.removeEventListener('abort', abort);
}
