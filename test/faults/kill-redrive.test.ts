import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { deliverySource } from '../path/deliveries.ts';
import { freshDatabase } from '../support/postgres.ts';
import { until } from '../support/until.ts';
import { consumerOf, type Kind, storeOf } from './redrive-child.ts';

const CHILD = fileURLToPath(new URL('redrive-child.ts', import.meta.url));
const POINTS = ['claim', 'handle', 'record'].flatMap(step => [`${step} before`, `${step} after`]);

async function placeFor(kind: Kind) {
  const folder = await mkdtemp(join(tmpdir(), 'nevertwice-redrive-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  if (kind !== 'postgres') return { where: join(folder, 'x.db'), effects: join(folder, 'effects') };
  const database = await freshDatabase();
  onTestFinished(() => database.drop());
  return { where: database.url, effects: '' };
}

test.each((['postgres', 'sqlite', 'local'] as const).flatMap(kind => POINTS.map(at => ({ kind, at }))))(
  'a redrive on $kind that is killed at "$at" loses nothing; the next one has the effect once where a transaction holds it',
  async ({ kind, at }) => {
    const { where, effects } = await placeFor(kind);
    await consumerOf(kind, where, effects, true).run({ source: deliverySource([{ id: 'm1' }]) });
    const child = spawn(process.execPath, [CHILD, kind, where, effects, at], { stdio: 'inherit' });
    const [code, signal] = await once(child, 'exit');
    // Where nobody comes to that point, as with leases, nobody is killed there.
    expect([code, signal]).toEqual(signal === null ? [0, null] : [null, 'SIGKILL']);
    if (kind !== 'local') expect(signal).toBe('SIGKILL');

    const consumer = consumerOf(kind, where, effects, false);
    await until('what the dead process held is free, and its letter is closed', async () => {
      await consumer.redrive({ by: 'the next one' });
      return (await consumer.store!.letters!.list('pay', {}, { limit: 1 })).length === 0;
    });
    const store = storeOf(kind, where);
    const done =
      store.promise === 'exactly-once'
        ? await store.transaction((_, sql) => sql`SELECT id FROM effects`)
        : (existsSync(effects) ? readFileSync(effects, 'utf8') : '').trim().split('\n');
    const window = kind === 'local' && signal !== null && ['handle after', 'record before'].includes(at);
    expect(done.length).toBeGreaterThanOrEqual(1);
    expect(done.length).toBeLessThanOrEqual(window ? 2 : 1);
    const late = deliverySource([{ id: 'm1' }]);
    await consumer.run({ source: late });
    expect(late.outcomes).toEqual(['duplicate']);
    if (kind !== 'local') {
      const [letter] = await store.letters!.list('pay', { closed: true }, { limit: 1 });
      expect(letter!.history[0]).toMatchObject({ action: 'retry', by: 'the one that dies' });
    }
    await Promise.all([store.close(), consumer.store!.close()]);
  },
);
