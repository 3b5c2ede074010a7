import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { KILLS, timeLimit } from '../../support/counts.ts';
import { SEED, seeded } from '../../support/random.ts';
import { type Campaign, campaigns, type Kind, PLACES, type Place } from './plan.ts';
import { play, type Report } from './run.ts';

/** Everything that a kind of store brings: where each campaign finds an empty database. */
export interface Databases {
  create(folder: string): Promise<{ readonly target: string; drop(): Promise<void> }>;
}

/** The kill runs on one kind of store; `file` is the test file, for the command that plays a failure again. */
export function killSuite(kind: Kind, file: string, databases: Databases): void {
  const plan = campaigns(kind, KILLS, seeded(SEED));
  const deaths = new Map<Place, number>(PLACES.map(place => [place, 0]));
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nevertwice-kill-'));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  describe(`${KILLS} kills on ${kind}, seed ${SEED}`, () => {
    test.each(plan.map((campaign, i) => ({ campaign, i, title: titleOf(campaign) })))(
      '$title: each effect once, inbox and effects agree, broker drained',
      { timeout: timeLimit(3_000) },
      async ({ campaign, i }) => {
        const again = `NEVERTWICE_SEED=${SEED} NEVERTWICE_KILLS=${KILLS} npx vitest run ${file} -t '${titleOf(campaign)}'`;
        const database = await databases.create(folder);
        const start = performance.now();
        let report: Report;
        try {
          report = await play(campaign, { target: database.target, cache: folder, random: seeded(SEED + i) });
        } catch (error) {
          throw new Error(`${again}\n${(error as Error).message}`, { cause: error });
        } finally {
          await database.drop();
        }
        for (const [place, times] of report.deaths) deaths.set(place, deaths.get(place)! + times);
        expect(report.faults, again).toEqual([]);
        expect(report.pending, again).toBe(0);
        const copies = Object.values(report.copies).reduce((sum, n) => sum + n);
        expect(report.messages, again).toBeGreaterThan(0);
        if (KILLS > 100) {
          const seconds = ((performance.now() - start) / 1000).toFixed(0);
          console.info(
            `${kind}, ${titleOf(campaign)}: ${report.messages} messages, ${copies} copies sent, ${report.deliveries} deliveries, ${seconds} s`,
          );
        }
      },
    );

    test.runIf(KILLS >= PLACES.length)('there was a death at every place of the path', () => {
      const counted = [...deaths.values()].reduce((sum, n) => sum + n);
      expect(counted).toBe(KILLS);
      expect([...deaths].filter(([, times]) => times === 0)).toEqual([]);
      if (KILLS > 100) console.info(`${kind}: ${[...deaths].map(([place, n]) => `${place} ${n}`).join(', ')}`);
    });
  });
}

function titleOf({ style, processes, kills }: Campaign): string {
  return `${style}, ${processes === 1 ? 'one process' : 'two processes'}, ${kills.length} kills`;
}
