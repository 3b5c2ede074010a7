import { contest, type Result, resultsFor } from '../contest.ts';
import type { BenchOptions, Suite } from '../suites.ts';
import { batch } from './postgres/batch.ts';
import { inOrder } from './postgres/in-order.ts';
import { naive } from './postgres/naive.ts';
import { overlap } from './postgres/overlap.ts';
import { PostgresPlace } from './postgres/place.ts';
import { single } from './postgres/single.ts';
import * as postgresSizes from './postgres/sizes.ts';
import type { Shape } from './shape.ts';
import { consumers } from './sqlite/consumers.ts';
import { loops } from './sqlite/loops.ts';
import { SqlitePlace } from './sqlite/place.ts';
import * as sqliteSizes from './sqlite/sizes.ts';

const ROUNDS = { full: 7, quick: 3 };

// Of the quick run, so that a busy machine cuts rounds and not patience.
const WITHIN_MS = { postgres: 18_000, sqlite: 6_000 };

// Neighbours in this list are neighbours in time: rivals next to each other, the naive consumer in the middle.
const onPostgres = (quick: boolean): readonly Shape<PostgresPlace>[] =>
  [single, inOrder, naive, overlap, batch].map(shape => shape(quick ? postgresSizes.QUICK : postgresSizes.FULL));

const onSqlite = (quick: boolean): readonly Shape<SqlitePlace>[] =>
  [loops, consumers].map(shape => shape(quick ? sqliteSizes.QUICK : sqliteSizes.FULL));

export const sqlSuite: Suite = {
  name: 'sql',
  about: 'consumers on PostgreSQL and SQLite: single, in order, overlapping, set-based',
  ids: [...onPostgres(true), ...onSqlite(true)].flatMap(shape => shape.rows.map(row => row.id)),
  async run(options) {
    const { quick } = options;
    return [
      ...(await run(options, onPostgres(quick), () => PostgresPlace.open(), WITHIN_MS.postgres)),
      ...(await run(options, onSqlite(quick), async () => new SqlitePlace(), WITHIN_MS.sqlite)),
    ];
  },
};

interface Place {
  facts(): string | Promise<string>;
  close(): Promise<void>;
}

async function run<P extends Place>(
  { quick, wants, say }: BenchOptions,
  shapes: readonly Shape<P>[],
  open: () => Promise<P>,
  quickMs: number,
): Promise<readonly Result[]> {
  const rows = shapes.flatMap(shape => shape.rows).filter(row => wants(row.id));
  if (rows.length === 0) return [];
  const needed = new Set(rows.flatMap(row => [row.of ?? row.id, row.against ?? row.id]));
  const place = await open();
  try {
    say(await place.facts());
    const contestants = shapes.flatMap(shape => shape.contestants(place)).filter(({ id }) => needed.has(id));
    let checked = 0;
    const timings = await contest(contestants, {
      ...(quick ? { rounds: ROUNDS.quick, withinMs: quickMs } : { rounds: ROUNDS.full }),
      onChecked: () => checked++,
    });
    const rounds = timings.values().next().value?.length;
    say(`all balances were right after each of ${checked} runs, in ${rounds} rounds and one to warm up`);
    return resultsFor(rows, timings);
  } finally {
    await place.close();
  }
}
