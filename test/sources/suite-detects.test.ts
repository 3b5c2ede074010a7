import { expect, test } from 'vitest';
import { type SourceSuiteCapabilities, sourceSuite } from '../../src/conformance/index.ts';
import type { Delivery } from '../../src/ports/delivery.ts';
import type { Lane, Settlement, Source } from '../../src/ports/source.ts';
import { memoryBroker } from '../../src/sources/memory/index.ts';

// A suite that passes everything is worth nothing: each of these sources breaks one promise, and the test of that
// promise has to say so.

const capabilities: SourceSuiteCapabilities = {
  retryLater: true,
  readAhead: true,
  finite: false,
  countsAttempts: true,
  redelivers: true,
  revokes: true,
  repeatsHeaders: true,
  nul: true,
  binary: true,
};

/** One broken verb in front of a lane that works. */
type Breakage = (lane: Lane, stop: AbortSignal) => Partial<Lane>;

/** Runs the suite over the broken source and returns the titles that failed. */
async function failing(
  breakage: Breakage,
  told: Partial<SourceSuiteCapabilities> = {},
  boundMs = 500,
): Promise<string[]> {
  const registered: { title: string; run: () => Promise<void> }[] = [];
  sourceSuite({
    test: (title, run) => registered.push({ title, run: () => run({}) }),
    name: 'broken',
    capabilities: { ...capabilities, ...told },
    boundMs,
    create: async () => {
      const broker = memoryBroker();
      return {
        source: broken(broker.source(), breakage),
        send: async messages => {
          for (const { body, ...message } of messages) broker.send({ ...message, value: body });
        },
        redeliverUnsettled: async () => broker.expire(),
        revoke: async () => broker.rebalance(),
        close: async () => {},
      };
    },
  });
  const results = await Promise.allSettled(registered.map(({ run }) => run()));
  return registered.filter((_, i) => results[i]?.status === 'rejected').map(({ title }) => title);
}

function broken(source: Source, breakage: Breakage): Source {
  return {
    ...source,
    receive: options => ({
      [Symbol.asyncIterator]: () => {
        const lanes = source.receive(options)[Symbol.asyncIterator]();
        return {
          next: async () => {
            const next = await lanes.next();
            if (next.done === true) return next;
            const lane = next.value;
            const whole: Lane = {
              id: lane.id,
              revoked: lane.revoked,
              receive: (max, signal) => lane.receive(max, signal),
              settle: settlements => lane.settle(settlements),
            };
            return { done: false, value: { ...whole, ...breakage(lane, options.signal) } };
          },
          return: async () => lanes.return!(),
        };
      },
    }),
  };
}

function receiving(change: (deliveries: readonly Delivery[]) => readonly Delivery[]): Breakage {
  return lane => ({ receive: async (max, signal) => change(await lane.receive(max, signal)) });
}

function settling(change: (settlements: readonly Settlement[], lane: Lane) => readonly Settlement[]): Breakage {
  return lane => ({ settle: async settlements => lane.settle(change(settlements, lane)) });
}

test('a source that works fails nothing', async () => {
  expect(await failing(() => ({}), {}, 10_000)).toEqual([]);
});

test.each<readonly [string, Breakage, RegExp]>([
  ['turns batches around', receiving(all => [...all].reverse()), /in the order in which they were sent/],
  ['gives more than max', lane => ({ receive: (max, signal) => lane.receive(max + 1, signal) }), /at most max/],
  [
    'drops a copy of an id',
    receiving(all =>
      all.filter((d, i) => all.findIndex(e => e.headers.get('message-id') === d.headers.get('message-id')) === i),
    ),
    /two copies of a message/,
  ],
  [
    'ignores the signal',
    lane => ({ receive: max => lane.receive(max, new AbortController().signal) }),
    /a stop ends it while it waits/,
  ],
  [
    'gives more after a stop',
    lane => ({ receive: (max, signal) => lane.receive(max, signal.aborted ? new AbortController().signal : signal) }),
    /a stop ends it with an empty array/,
  ],
  ['forgets acks', settling(() => []), /what was acked does not come again/],
  [
    'acks what it has received',
    lane => ({
      receive: async (max, signal) => {
        const all = await lane.receive(max, signal);
        await lane.settle(all.map(delivery => ({ delivery, settle: 'ack' })));
        return all;
      },
    }),
    /what was not settled comes again/,
  ],
  [
    'never counts attempts',
    receiving(all => all.map(d => Object.defineProperty(d, 'attempt', { value: 1 }))),
    /an attempt is counted/,
  ],
  [
    'retries at once',
    settling(all => all.map(s => (s.settle === 'ack' ? s : { ...s, delayMs: 0 }))),
    /comes again after its delay and not earlier/,
  ],
  ['throws on a second ack', throwsOnSecondAck, /twice is harmless/],
  ['has another id than its deliveries', () => ({ id: 'other' }), /its id is on every delivery/],
  ['never says that it was revoked', () => ({ revoked: new AbortController().signal }), /a revoked one ends/],
  ['gives the body as lossy text', receiving(all => all.map(lossyBody)), /bytes that are not UTF-8 survive/],
])('a source that %s is caught', async (_, breakage, title) => {
  const failed = await failing(breakage);
  expect(failed.filter(failure => title.test(failure))).toHaveLength(1);
});

test('a source that acks everything before the highest ack is caught', async () => {
  const handed = new Map<Lane, Delivery[]>();
  const failed = await failing(lane => ({
    receive: async (max, signal) => {
      const all = await lane.receive(max, signal);
      handed.set(lane, [...(handed.get(lane) ?? []), ...all]);
      return all;
    },
    settle: settlements =>
      lane.settle(
        settlements.flatMap(({ delivery }) => {
          const all = handed.get(lane) ?? [];
          return all
            .slice(0, all.indexOf(delivery) + 1)
            .map(earlier => ({ delivery: earlier, settle: 'ack' }) as const);
        }),
      ),
  }));
  expect(failed.filter(title => /a later ack does not settle an earlier delivery/.test(title))).toHaveLength(1);
});

test('a source that forgets a batch when it is asked for the next one is caught', async () => {
  const failed = await failing(lane => {
    let latest: readonly Delivery[] = [];
    return {
      receive: async (max, signal) => {
        latest = await lane.receive(max, signal);
        return latest;
      },
      settle: settlements => lane.settle(settlements.filter(({ delivery }) => latest.includes(delivery))),
    };
  });
  expect(failed.filter(title => /while nothing of the last one is settled/.test(title))).toHaveLength(1);
});

test('a source that says other capabilities than the suite was told is caught', async () => {
  const failed = await failing(() => ({}), { retryLater: false }, 10_000);
  expect(failed).toEqual(['broken: capabilities: the source says what the suite was told']);
});

test('a skip says why, in the title and to the runner', async () => {
  const reasons: string[] = [];
  const titles: string[] = [];
  const runs: Promise<void>[] = [];
  sourceSuite({
    test: (title, run) => {
      if (!title.includes('not here')) return;
      titles.push(title);
      runs.push(run({ skip: reason => reasons.push(reason ?? '') }));
    },
    name: 'file',
    capabilities: { ...capabilities, binary: 'JSON holds text' },
    create: () => Promise.reject(new Error('a skipped test creates nothing')),
  });
  await Promise.all(runs);
  expect(reasons).toContain('JSON holds text');
  expect(titles).toContain('file: content: bytes that are not UTF-8 survive (C31) [not here: JSON holds text]');
});

function throwsOnSecondAck(lane: Lane): Partial<Lane> {
  const acked = new Set<Delivery>();
  return {
    settle: async settlements => {
      for (const { delivery } of settlements) {
        if (acked.has(delivery)) throw new Error('unknown delivery tag');
        acked.add(delivery);
      }
      await lane.settle(settlements);
    },
  };
}

function lossyBody(delivery: Delivery): Delivery {
  const { value } = delivery;
  return typeof value === 'object'
    ? Object.defineProperty(delivery, 'value', { value: Buffer.from(value).toString() })
    : delivery;
}
