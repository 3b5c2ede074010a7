import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createOutbox } from '../../src/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { until } from '../support/until.ts';
import { folderWith, nevertwice, start } from './program.ts';

const RELAY = `import { createRelay } from 'nevertwice';
import { sqliteStore } from 'nevertwice/sqlite';
export default createRelay({
  store: sqliteStore('x.db'),
  maxAttempts: 1,
  pollMs: 10,
  destination: ({ id, key }) => {
    if (key === 'bad') throw new Error('too large');
    console.log('published ' + id);
  },
});
`;

async function withMessages() {
  const cwd = await folderWith({ 'relay.ts': RELAY });
  const store = sqliteStore(join(cwd, 'x.db'));
  const outbox = createOutbox({ store });
  await outbox.open();
  await store.transaction(async tx => {
    for (const key of ['good', 'bad', 'bad', 'good'])
      await outbox.add(tx, { topic: 't', key, id: `${key}-${Math.random()}`, payload: 1 });
  });
  return {
    cwd,
    store,
    outbox: (...args: readonly string[]) => nevertwice(['outbox', ...args, '--store', 'sqlite:x.db'], { cwd }),
  };
}

test('relay publishes until a signal stops it; outbox shows what is parked, retries and discards it', async () => {
  const { cwd, store, outbox } = await withMessages();
  const running = start(['relay', 'relay.ts'], { cwd });
  await until(
    'two are parked aside, two are out',
    async () => {
      const { waiting, parked, behind } = await store.outbox.backlog();
      return waiting === 0 && parked === 1 && behind === 1;
    },
    20_000,
  );
  running.child.kill('SIGTERM');
  const ended = await running.ended;
  expect([ended.code, ended.stdout]).toEqual([143, 'published 2 · refused 1 · parked 1 · outages 0\n']);
  expect(ended.stderr).toContain('stopping: what is under way has 10 s to finish');
  const listed = await outbox();
  expect(listed.code).toBe(0);
  expect(listed.stdout).toMatch(/^waiting 0 · parked 1 · behind them 1\nseq .*\n +2 +t +bad .* 1 +1 +too large\n$/);
  const retried = JSON.parse((await outbox('retry', '--seq', '2', '--json')).stdout);
  expect(retried).toMatchObject({ waiting: 2, parked: 0, behind: 0, messages: [] });
  expect(await outbox('discard', '--seq', '2')).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining('nothing is parked under the number 2'),
  });
  await store.close();
});

test('relay --to posts to an endpoint', async () => {
  const { cwd, store } = await withMessages();
  const ids: unknown[] = [];
  const server = createServer((request, response) => {
    ids.push(request.headers['idempotency-key']);
    request.resume();
    response.writeHead(204).end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const to = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const running = start(['relay', '--store', 'sqlite:x.db', '--to', to, '--json'], { cwd });
  await until('all is out', async () => (await store.outbox.backlog()).waiting === 0, 20_000);
  running.child.kill('SIGINT');
  const { code, stdout } = await running.ended;
  expect(code).toBe(130);
  expect(JSON.parse(stdout)).toEqual({ published: 4, refused: 0, parked: 0, outages: 0 });
  expect(new Set(ids).size).toBe(4);
  server.close();
  await store.close();
});

test.each([
  [['relay'], 'relay needs a module, or --store URL and --to URL'],
  [['relay', 'relay.ts', '--to', 'http://x/'], 'not both'],
  [['relay', '--store', 'sqlite:x.db', '--to', 'ftp://x'], '--to is no http:// or https:// URL'],
  [['relay', '--store', 'memory:', '--to', 'http://x/'], 'is a lease store and has no outbox'],
  [['outbox', '--store', 'memory:'], 'is a lease store and has no outbox'],
  [['outbox', '--seq', '1', '--store', 'sqlite:x.db'], '--seq belongs to outbox retry'],
  [['outbox', 'retry', '--store', 'sqlite:x.db'], 'outbox retry needs --seq'],
  [['outbox', '--store', 'sqlite:none.db'], 'there is no file none.db'],
])('%s: says what is wrong', async (args, words) => {
  const { cwd, store } = await withMessages();
  await store.close();
  const { code, stdout, stderr } = await nevertwice(args, { cwd });
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toContain(words);
});
