import { headersFrom } from '../../src/core/headers.ts';
import type { Delivery, Lane, Source } from '../../src/index.ts';
import type { LogState } from '../../src/ports/log.ts';

/** A log of one partition in this process, whose consumers keep their positions in their store. */
export interface TestLog {
  append(...records: readonly { id?: string; body: unknown; type?: string; key?: string }[]): void;
  source(): Source;
  /** Takes the partition from whoever has it and gives it out anew, as at a rebalance. */
  rebalance(): void;
  /** Another log under the same name. */
  replace(): void;
  /** The log loses its end, as after a leader that was not in sync. */
  truncate(end: number): void;
  /** What stands in the way of a read. */
  retained(earliest: bigint): void;
  /** Sets the group's offset from outside. */
  reset(offset: bigint): void;
  /** The broker forgets the group's offset. */
  expire(): void;
  readonly committed: LogState['committed'];
  /** Everything that was committed, in order. */
  readonly commits: readonly bigint[];
}

export function testLog(): TestLog {
  let records: { id?: string; body: unknown; type?: string; key?: string }[] = [];
  let topicId = 1;
  let earliest = 0n;
  let committed: LogState['committed'];
  const commits: bigint[] = [];
  let lane: { revoke(): void; wake(): void } | undefined;
  let offer: (() => void) | undefined;

  function open(): Lane {
    lane?.revoke();
    const revocation = new AbortController();
    let next = 0n;
    let position: bigint | undefined;
    let wake = Promise.withResolvers<void>();
    const mine = {
      revoke: () => {
        revocation.abort();
        wake.resolve();
      },
      wake: () => wake.resolve(),
    };
    lane = mine;
    return {
      id: 'log/0',
      revoked: revocation.signal,
      log: {
        inspect: async () => ({
          clusterId: 'c',
          topicId: String(topicId),
          earliest,
          end: BigInt(records.length),
          partition: 0,
          partitions: 1,
          start: earliest,
          committed,
        }),
        beginAt: offset => {
          next = offset;
        },
        recorded: at => {
          position = at;
        },
        claim: async () => {
          committed = { offset: position!, position: position! };
        },
        reopen: () => {
          if (lane !== mine) return;
          mine.revoke();
          offer?.();
        },
      },
      async receive(max, signal) {
        signal.addEventListener('abort', mine.wake, { once: true });
        while (!signal.aborted && !revocation.signal.aborted && next >= BigInt(records.length)) {
          wake = Promise.withResolvers();
          await wake.promise;
        }
        if (signal.aborted || revocation.signal.aborted) return [];
        const from = Number(next);
        const given = records.slice(from, from + max).map((record, i) => deliveryOf(record, BigInt(from + i)));
        next += BigInt(given.length);
        return given;
      },
      async settle(settlements) {
        if (revocation.signal.aborted) return;
        const last = settlements.at(-1)?.delivery.offset;
        if (last === undefined) return;
        committed = { offset: last + 1n, position: position ?? null };
        commits.push(last + 1n);
      },
    };
  }

  return {
    append(...added) {
      records.push(...added);
      lane?.wake();
    },
    rebalance() {
      lane?.revoke();
      offer?.();
    },
    replace() {
      topicId++;
      records = [];
      earliest = 0n;
      committed = undefined;
    },
    truncate(end) {
      records.length = end;
    },
    retained(offset) {
      earliest = offset;
    },
    reset(offset) {
      committed = { offset, position: null };
    },
    expire() {
      committed = undefined;
    },
    get committed() {
      return committed;
    },
    commits,
    source: () => ({
      name: 'test log',
      capabilities: { retryLater: false, finite: false, readAhead: true },
      async *receive({ signal }) {
        let offered = Promise.withResolvers<void>();
        offer = () => offered.resolve();
        signal.addEventListener('abort', () => offered.resolve(), { once: true });
        offered.resolve();
        while (!signal.aborted) {
          await offered.promise;
          offered = Promise.withResolvers();
          if (!signal.aborted) yield open();
        }
      },
    }),
  };
}

function deliveryOf(
  { id, body, type, key }: { id?: string; body: unknown; type?: string; key?: string },
  offset: bigint,
): Delivery {
  return {
    lane: 'log/0',
    position: `log/0/${offset}`,
    attempt: 1,
    headers: headersFrom(id === undefined ? undefined : { 'message-id': id }),
    key,
    type,
    time: new Date(1_700_000_000_000),
    value: JSON.stringify(body),
    topic: 'log',
    partition: 0,
    offset,
  };
}
