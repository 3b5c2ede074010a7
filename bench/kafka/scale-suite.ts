import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Pool } from 'pg';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { median, type Result, spread } from '../contest.ts';
import { checkWallets, createWallets, emptyWallets } from '../sql/postgres/place.ts';
import type { Suite } from '../suites.ts';
import { availableClients, CLIENTS } from './clients.ts';
import { balancesAfter, topicLoad } from './load.ts';
import { KafkaPlace } from './place.ts';
import { untilJoined } from './scale-joined.ts';
import { type Lags, lagUnder } from './scale-lag.ts';
import { startMembers } from './scale-members.ts';

interface Sizes {
  readonly events: number;
  readonly rounds: number;
  readonly lagMs: number;
}
const FULL: Sizes = { events: 40_000, rounds: 2, lagMs: 5_000 };
const QUICK: Sizes = { events: 2_000, rounds: 1, lagMs: 400 };

interface Cell {
  readonly id: string;
  readonly client: string;
  readonly partitions: number;
  readonly processes: number;
}

const cells: readonly Cell[] = CLIENTS.flatMap(({ name: client }) =>
  [1, 2, 4].flatMap(partitions =>
    [1, 2, 3].map(processes => ({
      id: `kafka-scale.${client}.${partitions}x${processes}`,
      client,
      partitions,
      processes,
    })),
  ),
);

/** `handleBatch` in id mode, by partitions × processes: how fast, how large, and how far behind at half of that speed. */
export const kafkaScaleSuite: Suite = {
  name: 'kafka-scale',
  about: 'handleBatch from Kafka with 1 to 4 partitions and 1 to 3 processes: rate, peak memory, lag at half the rate',
  ids: cells.map(({ id }) => id),
  async run({ quick, wants, say }) {
    const wanted = cells.filter(
      ({ id, partitions, processes }) => wants(id) && (!quick || (partitions === 4 && processes === 1)),
    );
    const clients = availableClients(name => wanted.some(({ client }) => client === name), say);
    const had = wanted.filter(({ client }) => clients.some(({ name }) => name === client));
    if (had.length === 0) return [];
    const place = await KafkaPlace.open();
    const cache = mkdtempSync(join(tmpdir(), 'nevertwice-bench-'));
    try {
      say(await place.facts());
      const results: Result[] = [];
      for (const cell of had) results.push(await measured(place, cell, quick ? QUICK : FULL, cache));
      say('all balances were right after each run');
      return results;
    } finally {
      await place.close();
      rmSync(cache, { recursive: true, force: true });
    }
  },
};

async function measured(place: KafkaPlace, cell: Cell, sizes: Sizes, cache: string): Promise<Result> {
  const rates: number[] = [];
  const peaks: number[] = [];
  let lags: Lags | undefined;
  for (let round = 1; round <= sizes.rounds; round++) {
    const run = await runOf(place, cell, sizes, cache, round).catch(error => {
      throw new Error(`${cell.id} came out wrong: ${(error as Error).message}`, { cause: error });
    });
    rates.push(run.rate);
    peaks.push(run.peakMb);
    lags = run.lags;
  }
  const messages = (value: number) => ({ value, unit: 'messages' });
  return {
    id: cell.id,
    what: `${cell.partitions} × ${cell.processes}`,
    value: median(rates),
    unit: 'events/s',
    against: null,
    ratio: null,
    spread: spread(rates),
    target: undefined,
    more: {
      'peak memory': { value: Math.max(...peaks), unit: 'MB' },
      'lag p50': messages(lags!.p50),
      'lag p99': messages(lags!.p99),
      'lag max': messages(lags!.max),
    },
  };
}

interface Run {
  readonly rate: number;
  readonly peakMb: number;
  /** Of the last round. */
  readonly lags: Lags | undefined;
}

async function runOf(place: KafkaPlace, cell: Cell, sizes: Sizes, cache: string, round: number): Promise<Run> {
  const { client, partitions, processes } = cell;
  const load = topicLoad(sizes.events, partitions);
  const topic = `${cell.id}.${round}`;
  const schema = topic.replaceAll(/\W/g, '_');
  await place.fill(topic, load);
  await createWallets(place.postgres, schema);
  await migrate(place, schema);
  await emptyWallets(place.postgres, schema);
  const group = topic;
  const args = [client, place.brokers, topic, group, place.postgres.url, schema];
  const members = startMembers(processes, args, cache);
  try {
    await untilJoined(place.kafka, group, members, cell);
    const start = performance.now();
    members.begin();
    await members.settled(load.events);
    const rate = (load.events / (performance.now() - start)) * 1_000;
    await checkWallets(place.postgres, schema, load.once);
    let lags: Lags | undefined;
    if (round === sizes.rounds) {
      const first = load.messages;
      const { brokers: broker } = place;
      lags = await lagUnder({ broker, topic, partitions, first, rate: rate / 2, ms: sizes.lagMs }, place.kafka, group);
      await members.settled(load.events + lags.sent);
      await checkWallets(place.postgres, schema, balancesAfter(load.messages + lags.sent));
    }
    return { rate, peakMb: await members.leave(), lags };
  } finally {
    members.kill();
  }
}

/** Once, and not by every process at its start. */
async function migrate(place: KafkaPlace, schema: string): Promise<void> {
  const pool = new Pool({ connectionString: place.postgres.url });
  await postgresStore(pool, { schema }).migrate();
  await pool.end();
}
