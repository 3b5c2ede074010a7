import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, onTestFinished, test } from 'vitest';
import { createConsumer } from '../../src/index.ts';
import { memoryBroker, memorySource } from '../../src/memory.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { freshDatabase } from '../support/postgres.ts';
import { type Kind, storeOf } from './redrive-child.ts';

const CHILD = fileURLToPath(new URL('poison-child.ts', import.meta.url));
const others = ['m1', 'm10', 'm2', 'm3', 'm5', 'm6', 'm7', 'm8', 'm9'];

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function placeFor(kind: Kind) {
  const folder = await mkdtemp(join(tmpdir(), 'nevertwice-poison-'));
  closing.push(() => rm(folder, { recursive: true, force: true }));
  if (kind !== 'postgres') return { where: join(folder, 'x.db'), effects: join(folder, 'effects') };
  const database = await freshDatabase();
  closing.push(() => database.drop());
  return { where: database.url, effects: '' };
}

test.each(['postgres', 'sqlite', 'local'] as const)(
  'C74: a message that ends the process is quarantined after its limit, counted in the store; the others are done: %s',
  async kind => {
    const { where, effects } = await placeFor(kind);
    const starts: (string | null)[] = [];
    let summary = '';
    for (let ended = false; !ended; ) {
      const child = spawn(process.execPath, [CHILD, kind, where, effects], { stdio: ['ignore', 'pipe', 'inherit'] });
      child.stdout.setEncoding('utf8').on('data', text => {
        summary += text;
      });
      const [code, signal] = await once(child, 'close');
      starts.push(signal);
      ended = code === 0;
      if (starts.length > 6) break;
    }
    // The first death finds nobody counting, then two that are counted; the fourth start does the rest.
    expect(starts).toEqual(['SIGKILL', 'SIGKILL', 'SIGKILL', null]);
    expect(JSON.parse(summary)).toMatchObject({ deadLetters: 1, failed: 0 });
    const store = storeOf(kind, where);
    closing.push(() => store.close());
    const done =
      store.promise === 'exactly-once'
        ? (await store.transaction((_, sql) => sql<{ id: string }>`SELECT id FROM effects`)).map(row => row.id)
        : readFileSync(effects, 'utf8').trim().split('\n');
    if (kind === 'local') expect([...new Set(done)].toSorted()).toEqual([...others, 'm4'].toSorted());
    else expect(done.toSorted()).toEqual(others);
    const letters = await store.letters!.list('pay', {}, { limit: 10 });
    expect(letters.map(letter => [letter.messageId, letter.kind])).toEqual([['m4', 'quarantined']]);
    expect(letters[0]!.reason).toContain('2 times');
    // Left in an orderly way: nobody is careful any more, and nothing is left of the tries.
    expect(await store.attempts!.enter('pay', 'memory/0', 'a test')).toBeUndefined();
    expect(await store.attempts!.begin('pay', '026d34')).toBe(1);
  },
);

test('C74: the normal path writes nothing for it: one statement when a lane is entered, one when it is left', async () => {
  const database = await freshDatabase();
  onTestFinished(() => database.drop());
  const pool = database.pool({ max: 4 });
  const texts: string[] = [];
  const counting = {
    ...pool,
    connect: async () => {
      const client = (await pool.connect()) as unknown as { query(...args: unknown[]): unknown };
      if (!('counted' in client)) {
        const query = client.query.bind(client);
        Object.assign(client, {
          counted: true,
          query: (...args: any[]) => {
            texts.push(typeof args[0] === 'string' ? args[0] : args[0].text);
            return query(...args);
          },
        });
      }
      return client as never;
    },
  };
  const run = async (name: string, quarantineAfter: number | false, messages: number) => {
    const consumer = createConsumer({
      name,
      store: postgresStore(counting as never),
      maxBatch: 1,
      quarantineAfter,
      handle: () => undefined,
    } as never);
    await consumer.run({ source: memorySource([{ id: 'warm' }]) });
    texts.length = 0;
    const list = Array.from({ length: messages }, (_, i) => ({ id: `m${i}` }));
    await consumer.run({ source: memorySource(list) });
    return texts.filter(text => /attempts|lane_owners/.test(text)).length;
  };
  expect(await run('off', false, 20)).toBe(0);
  expect(await run('few', 3, 1)).toBe(2);
  expect(await run('many', 3, 50)).toBe(2);
});

test('C74: a lane that was left by a stop, or that another consumer of this process had, is not looked at closely', async () => {
  const broker = memoryBroker({ partitions: 1 });
  const { where } = await placeFor('sqlite');
  const store = storeOf('sqlite', where);
  closing.push(() => store.close());
  const seen: string[] = [];
  process.on('warning', ({ message }) => seen.push(message));
  for (let round = 0; round < 3; round++) {
    const consumer = createConsumer({ name: 'pay', store, handle: () => undefined } as never);
    broker.send({ id: `m${round}` });
    const running = consumer.run({ source: broker.source() });
    while (broker.pending('pay') > 0) await new Promise(resolve => setImmediate(resolve));
    broker.rebalance();
    broker.send({ id: `n${round}` });
    while (broker.pending('pay') > 0) await new Promise(resolve => setImmediate(resolve));
    await consumer.stop();
    await running;
  }
  expect(seen.filter(text => text.includes('did not leave it'))).toEqual([]);
});
