import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createOutbox, type TransactionalStore } from '../../src/index.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';
import { SEED, seeded } from '../support/random.ts';
import { endsWithin, until } from '../support/until.ts';
import { PLACES, type RelayJob } from './relay-places.ts';
import { firsts, isEmpty } from './support.ts';

const CHILD = fileURLToPath(new URL('relay-child.ts', import.meta.url));

interface Line {
  readonly id: string;
  readonly key: string;
  readonly by: number;
}

describe.each(['postgres', 'sqlite'] as const)('%s', kind => {
  let folder: string;
  let database: FreshDatabase | undefined;
  let store: TransactionalStore<any>;
  let target: string;
  let sink: string;
  const children = new Set<ChildProcess>();
  const random = seeded(SEED);
  const added = new Map<string, string[]>();
  beforeEach(async () => {
    added.clear();
    folder = await mkdtemp(join(tmpdir(), 'nevertwice-relay-'));
    sink = join(folder, 'sink');
    if (kind === 'postgres') {
      database = await freshDatabase();
      target = database.url;
      store = postgresStore(database.pool({ max: 4 }));
    } else {
      target = join(folder, 'outbox.db');
      store = sqliteStore(target);
    }
    await store.outbox.open();
  });
  afterEach(async () => {
    for (const child of children) child.kill('SIGKILL');
    children.clear();
    await store.close();
    await database?.drop();
    database = undefined;
    await rm(folder, { recursive: true, force: true });
  });

  const start = (job: Partial<RelayJob>): ChildProcess => {
    const whole: RelayJob = { kind, target, sink, leaseMs: 600, ...job };
    const child = fork(CHILD, [JSON.stringify(whole)], {
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
      execArgv: [],
      env: { ...process.env, NODE_COMPILE_CACHE: join(tmpdir(), 'nevertwice-relay-cache') },
    });
    children.add(child);
    return child;
  };
  const published = (): readonly Line[] =>
    existsSync(sink)
      ? readFileSync(sink, 'utf8')
          .split('\n')
          .filter(line => line !== '')
          .map(line => JSON.parse(line) as Line)
      : [];
  async function add(n: number): Promise<void> {
    const outbox = createOutbox({ store });
    await store.transaction(async tx => {
      for (let i = 0; i < n; i++) {
        const key = `k${random.below(5)}`;
        const ofKey = added.get(key) ?? [];
        added.set(key, ofKey);
        const id = `${key}-${ofKey.length}`;
        await outbox.add(tx, { topic: 't', key, id, payload: i });
        ofKey.push(id);
      }
    });
  }
  /** All that was added is there, and of each key for the first time in order. */
  function assertWhole(): void {
    const once = firsts(published());
    for (const [key, ids] of added)
      expect(
        once.filter(line => line.key === key).map(({ id }) => id),
        `${key}, seed ${SEED}`,
      ).toEqual(ids);
  }
  async function drain(): Promise<void> {
    const last = start({});
    await once(last.stdout!, 'data');
    await until('all is out', () => isEmpty(store), 30_000);
    last.kill('SIGTERM');
    expect(await endsWithin(10_000, 'it ends by itself', once(last, 'exit'))).toEqual([0, null]);
  }

  test.each(PLACES)(
    'C103: killed at %s: nothing is lost, and first publications are in order',
    async place => {
      for (const nth of [1, 3]) {
        await add(60);
        const child = start({ place, nth });
        const [, signal] = await endsWithin(20_000, `a death at ${place}, arrival ${nth}`, once(child, 'exit'));
        expect(signal).toBe('SIGKILL');
      }
      await drain();
      assertWhole();
      // A crash costs at most what was under way: a batch of each that died.
      expect(published().length - firsts(published()).length).toBeLessThanOrEqual(40);
    },
    90_000,
  );

  test('a relay that is frozen past its lease: the other one takes over; awake it publishes no more than it had begun', async () => {
    await add(150);
    // In the middle of a batch, and where it holds no lock: a SQLite file would be locked as long.
    const frozen = start({ slowMs: 4, place: 'publish during', nth: 12, freezes: true });
    await until('it has stopped', () => published().length >= 12, 20_000);
    await add(50);
    const other = start({});
    await until('the other one has published all', () => isEmpty(store), 30_000);
    expect(firsts(published())).toHaveLength(200);
    frozen.kill('SIGCONT');
    await add(20);
    await until('all is out', () => isEmpty(store), 30_000);
    for (const child of [frozen, other]) {
      child.kill('SIGTERM');
      expect(await endsWithin(10_000, 'it ends by itself', once(child, 'exit'))).toEqual([0, null]);
    }
    assertWhole();
    const repeats = published().length - firsts(published()).length;
    // What it had in hand (two keys), and what the other one had to repeat since it was not deleted (a batch).
    expect(repeats).toBeLessThanOrEqual(22);
  }, 90_000);
});
