import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { expect, test, vi } from 'vitest';
import { freshDatabase, startPostgres } from './support/postgres.ts';

// The suites stand on this ground: if it gave way silently, a green run would mean nothing.

test('two fresh databases do not see each other, and are gone after drop', async () => {
  const [one, two] = [await freshDatabase(), await freshDatabase()];
  await one.pool().query('create table t (a int)');
  const { rows } = await two.pool().query(`select to_regclass('t') as found`);
  expect(rows).toEqual([{ found: null }]);
  await one.drop();
  await two.drop();
  const client = new Client({ connectionString: one.url });
  await expect(client.connect()).rejects.toMatchObject({ code: '3D000' });
});

test('the server keeps what it says it committed', async () => {
  const database = await freshDatabase();
  const { rows } = await database
    .pool()
    .query(
      `select name, setting from pg_settings where name in ('fsync', 'full_page_writes', 'synchronous_commit') order by name`,
    );
  expect(rows.map(row => row.setting)).toEqual(['on', 'on', 'on']);
  await database.drop();
});

test.for(['SIGQUIT', 'SIGKILL'] as const)(
  'a server killed by %s comes back with what was committed only',
  async signal => {
    const server = await startPostgres();
    const session = new Client({ connectionString: server.url });
    session.on('error', () => undefined);
    await session.connect();
    await session.query('create table t (a int)');
    await session.query('insert into t values (1)');
    await session.query('begin');
    await session.query('insert into t values (2)');
    // A backend outlives a postmaster that was killed by SIGKILL until it notices, and commits until then.
    const cut = new Promise(resolve => session.once('end', resolve));
    await server.kill(signal);
    await cut;
    await expect(session.query('commit')).rejects.toThrow();
    await server.start();
    const again = new Client({ connectionString: server.url });
    await again.connect();
    expect((await again.query('select a from t')).rows).toEqual([{ a: 1 }]);
    await again.end();
    await server.stop();
  },
);

test('a server starts from a copy of what an earlier one kept, and without it where that is broken', {
  timeout: 120_000,
}, async () => {
  const cache = await mkdtemp(join(tmpdir(), 'nevertwice-cache-'));
  vi.stubEnv('XDG_CACHE_HOME', cache);
  try {
    await (await startPostgres()).stop();
    const [template] = await readdir(join(cache, 'nevertwice'));
    const control = join(cache, 'nevertwice', template!, 'data/global/pg_control');
    const made = (await stat(control)).mtimeMs;
    const second = await startPostgres();
    const client = new Client({ connectionString: second.url });
    await client.connect();
    expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
    await client.end();
    await second.stop();
    // Nobody writes into what is kept.
    expect((await stat(control)).mtimeMs).toBe(made);

    await rm(control);
    await (await startPostgres()).stop();
    // Made anew, and kept again.
    expect((await stat(control)).mtimeMs).toBeGreaterThan(made);
  } finally {
    vi.unstubAllEnvs();
    await rm(cache, { recursive: true, force: true });
  }
});

test('a test process that is killed leaves no server and no folder behind', async () => {
  const module = fileURLToPath(new URL('../src/verify/servers/postgres-server.ts', import.meta.url));
  const code = `
    import { startPostgres } from ${JSON.stringify(module)};
    import { Client } from 'pg';
    const server = await startPostgres();
    const client = new Client({ connectionString: server.url });
    await client.connect();
    const { rows } = await client.query("select setting from pg_settings where name = 'data_directory'");
    console.log(JSON.stringify([server.url, rows[0].setting]));
    setInterval(() => {}, 1_000);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  const [url, folder] = JSON.parse(line) as [string, string];
  expect(existsSync(folder)).toBe(true);
  child.kill('SIGKILL');
  const deadline = Date.now() + 10_000;
  while (existsSync(folder) && Date.now() < deadline) await sleep(20);
  expect(existsSync(folder)).toBe(false);
  // Its last moments are refused in other ways.
  const answer = () =>
    new Client({ connectionString: url }).connect().then(
      () => 'connected',
      (error: NodeJS.ErrnoException) => error.code,
    );
  while ((await answer()) !== 'ECONNREFUSED' && Date.now() < deadline) await sleep(20);
  expect(await answer()).toBe('ECONNREFUSED');
});
