import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import type { LeaseStore } from '../../src/index.ts';
import { memoryStore } from '../../src/memory.ts';
import { localStore } from '../../src/stores/local/index.ts';
import { ioredis, nodeRedis, redisStore } from '../../src/stores/redis/index.ts';
import { redisMissing, startRedis } from '../../src/verify/servers/redis-server.ts';
import { type Contestant, contest, type Row, resultsFor } from '../contest.ts';
import type { Suite } from '../suites.ts';
import { batchedClaims, singleSets } from './claims.ts';
import { onLeases, type Work, withoutDeduplication } from './consumers.ts';
import { Downstream } from './downstream.ts';
import type { Paced } from './paced.ts';

const LANES = 16;
const PER_SECOND = 13_000;
/** A pace that all of them keep: what a message waits when nobody has fallen behind. */
const HALF = 6_500;
const SIZES = {
  full: { rounds: 5, paced: 5 * PER_SECOND, raw: 40_000, claims: 50_000 },
  quick: { rounds: 1, paced: PER_SECOND / 2, raw: 4_000, claims: 5_000 },
};

const STORES = ['memory', 'local', 'redis', 'ioredis'] as const;
const TARGETS = { memory: 0.99, local: 0.99, redis: 0.95, ioredis: 0.95 };

const rows: readonly Row[] = [
  { id: 'leases.paced.none', what: '13,000 a second, 1 ms each, 16 at a time, no deduplication' },
  ...STORES.map(store => ({
    id: `leases.paced.${store}`,
    what: `the same with ${store}`,
    against: 'leases.paced.none',
    target: TARGETS[store],
  })),
  { id: 'leases.half.none', what: 'half the pace: from when a message is due to its effect, no deduplication' },
  ...STORES.map(store => ({ id: `leases.half.${store}`, what: `the same with ${store}` })),
  { id: 'leases.raw.none', what: 'unpaced, no work, no deduplication' },
  ...STORES.map(store => ({ id: `leases.raw.${store}`, what: `the same with ${store}`, against: 'leases.raw.none' })),
  { id: 'leases.claims.set', what: 'SET NX PX, 50 at a time, node-redis' },
  { id: 'leases.claims.batch', what: 'claims of 500, node-redis', against: 'leases.claims.set', target: 1.8 },
];

export const leasesSuite: Suite = {
  name: 'leases',
  about: 'what deduplication costs with the lease stores: memory, a local file, Redis with two clients',
  ids: rows.map(({ id }) => id),
  async run({ quick, wants, say }) {
    const wanted = rows.filter(({ id }) => wants(id));
    const missing = await redisMissing();
    if (missing !== undefined) {
      say(`the lease stores are left out: ${missing}`);
      return [];
    }
    const size = quick ? SIZES.quick : SIZES.full;
    const folder = mkdtempSync(join(tmpdir(), 'nevertwice-bench-'));
    const server = await startRedis();
    const downstream = new Downstream(1);
    try {
      const openers = storesOn(server.url, folder);
      const needed = new Set(wanted.flatMap(row => [row.id, row.against ?? row.id]));
      const contestants = [
        ...consumersFor(
          'paced',
          { events: size.paced, lanes: LANES, perSecond: PER_SECOND },
          () => downstream.call(),
          openers,
        ),
        ...consumersFor(
          'half',
          { events: size.paced / 2, lanes: LANES, perSecond: HALF, latency: true },
          () => downstream.call(),
          openers,
        ),
        ...consumersFor('raw', { events: size.raw, lanes: LANES, perSecond: undefined }, () => undefined, openers),
        singleSets('leases.claims.set', server.url, size.claims),
        batchedClaims('leases.claims.batch', server.url, size.claims),
      ].filter(({ id }) => needed.has(id));
      const timings = await contest(contestants, { rounds: size.rounds });
      say('every message had its effect once in each run');
      return resultsFor(wanted, timings);
    } finally {
      await downstream.close();
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  },
};

type Openers = Readonly<Record<(typeof STORES)[number], () => Promise<LeaseStore>>>;

function consumersFor(
  kind: 'paced' | 'half' | 'raw',
  paced: Paced,
  work: Work,
  openers: Openers,
): readonly Contestant[] {
  return [
    withoutDeduplication(`leases.${kind}.none`, paced, work),
    ...STORES.map(store => onLeases(`leases.${kind}.${store}`, paced, work, openers[store])),
  ];
}

function storesOn(url: string, folder: string): Openers {
  let files = 0;
  return {
    memory: async () => memoryStore(),
    local: async () => localStore(join(folder, `${files++}.db`)),
    redis: async () => {
      const client = createClient({ url });
      await client.connect();
      return closing(redisStore(nodeRedis(client)), () => client.destroy());
    },
    ioredis: async () => {
      const client = new Redis(url);
      return closing(redisStore(ioredis(client)), () => client.disconnect());
    },
  };
}

/** The store, and with its end that of the client. */
function closing(store: LeaseStore, end: () => void): LeaseStore {
  const close = store.close.bind(store);
  store.close = async () => {
    await close();
    end();
  };
  return store;
}
