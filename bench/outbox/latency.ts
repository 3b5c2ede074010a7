import { setTimeout as sleep } from 'node:timers/promises';
import { createRelay } from '../../src/index.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import type { Result } from '../contest.ts';
import type { PostgresPlace } from '../sql/postgres/place.ts';

const PER_SECOND = 1_000;
const AT_MOST_MS = 20;

export const latencyIds = ['outbox.latency', 'outbox.latency.old-snapshot'] as const;

/**
 * From the commit to the call of the destination, at a thousand messages a second from 8 connections, by a relay with connections of its
 * own. The same once more while a transaction stays open that holds on to everything deleted since.
 */
export async function latency(place: PostgresPlace, id: (typeof latencyIds)[number], seconds: number): Promise<Result> {
  const schema = id.replaceAll(/\W/g, '_');
  const adding = postgresStore(place.pool({ max: 10, pipeline: true }), { schema });
  await adding.outbox.open();
  const committed = new Map<string, number>();
  const seen = new Map<string, number>();
  const relay = createRelay({
    store: postgresStore(place.pool({ max: 8, pipeline: true }), { schema }),
    destination: ({ id: message }) => void seen.set(message, performance.now()),
  });
  const run = relay.run();
  const old = await place.client();
  if (id === 'outbox.latency.old-snapshot') {
    await old.query('begin isolation level repeatable read');
    await old.query('select 1');
  }
  const inbox = await adding.open({ name: 'bench', signature: 'bench' });
  const events = seconds * PER_SECOND;
  const start = performance.now();
  const adder = async (nth: number) => {
    for (let n = nth; n < events; n += 8) {
      const due = start + n * (1_000 / PER_SECOND);
      const early = due - performance.now();
      if (early > 1) await sleep(early);
      const row = rowOfBench(n);
      await inbox.transaction([], { budgetMs: 1_000, overlap: false }, async unit => {
        await unit.addToOutbox(() => row);
        await unit.sealOutbox();
      });
      committed.set(row.id, performance.now());
    }
  };
  await Promise.all(Array.from({ length: 8 }, (_, nth) => adder(nth)));
  while (seen.size < events) await sleep(5);
  await relay.stop();
  await run;
  await old.query('rollback');
  // The first second connects and compiles.
  const waits = [...committed].map(([message, at]) => Math.max(0, seen.get(message)! - at)).slice(PER_SECOND);
  const sorted = waits.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.floor(sorted.length * share)]!;
  return {
    id,
    what: `commit to publish at ${PER_SECOND} a second, p99${id === 'outbox.latency' ? '' : ', a transaction open all the while'}`,
    value: at(0.99),
    unit: 'ms',
    against: null,
    ratio: null,
    spread: 0,
    target: { atMost: AT_MOST_MS },
    more: { p50: { value: at(0.5), unit: 'ms' } },
  };
}

function rowOfBench(n: number) {
  return {
    topic: 'bench',
    key: `k${n % 100}`,
    id: `b${n}`,
    headers: undefined,
    json: true,
    payload: Buffer.from(`{"n":${n}}`),
    hash: n % 100,
    refuseClash: false,
  };
}
