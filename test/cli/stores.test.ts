import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';
import { folderWith, nevertwice, PAYMENTS, WALLET } from './program.ts';

const OWN_STORE = `import { createConsumer } from 'nevertwice';
import { sqliteStore } from 'nevertwice/sqlite';
export default createConsumer({ name: 'own', store: sqliteStore('own.db', { tablePrefix: 'mine_' }), handle() {} });
`;

describe('migrate', () => {
  test('creates the tables once', async () => {
    const cwd = await folderWith();
    const run = (...more: string[]) => nevertwice(['migrate', '--store', 'sqlite:x.db', ...more], { cwd });
    expect(await run()).toMatchObject({ code: 0, stdout: 'sqlite x.db: applied migrations 1, 2, 3\n', stderr: '' });
    expect(await run()).toMatchObject({ code: 0, stdout: 'sqlite x.db: nothing to do, the tables fit this version\n' });
    expect(JSON.parse((await run('--json')).stdout)).toEqual({ applied: [] });
  });

  test('--print writes the SQL, touches nothing, and the SQL does the same', async () => {
    const cwd = await folderWith();
    const { code, stdout } = await nevertwice(['migrate', '--store', 'sqlite:x.db', '--print'], { cwd });
    expect(code).toBe(0);
    expect(existsSync(join(cwd, 'x.db'))).toBe(false);
    expect((await nevertwice(['migrate', '--store', 'sqlite:', '--print'], { cwd })).stdout).toBe(stdout);
    const json = await nevertwice(['migrate', '--store', 'sqlite:', '--print', '--json'], { cwd });
    expect((JSON.parse(json.stdout) as { sql: string }).sql.trimEnd()).toBe(stdout.trimEnd());
    const database = new DatabaseSync(join(cwd, 'x.db'));
    database.exec(stdout);
    database.close();
    expect((await nevertwice(['migrate', '--store', 'sqlite:x.db'], { cwd })).stdout).toContain('nothing to do');
  });

  test('takes the store of a module, with its table names', async () => {
    const cwd = await folderWith({ 'a.ts': OWN_STORE });
    expect((await nevertwice(['migrate', 'a.ts'], { cwd })).stdout).toBe('sqlite own.db: applied migrations 1, 2, 3\n');
    const database = new DatabaseSync(join(cwd, 'own.db'));
    expect(database.prepare("SELECT count(*) AS n FROM sqlite_schema WHERE name = 'mine_inbox'").get()).toEqual({
      n: 1,
    });
    database.close();
  });

  test('a module without a store needs the flag', async () => {
    expect(await nevertwice(['migrate', WALLET])).toMatchObject({
      code: 1,
      stderr:
        'error: consumer wallet has no store of its own; give --store URL (sqlite:FILE, postgres://USER@HOST/DATABASE or memory:)\n',
    });
  });
});

describe('stats', () => {
  test('shows what each consumer has done', async () => {
    const cwd = await folderWith();
    const run = (...more: string[]) => nevertwice(['stats', '--store', 'sqlite:x.db', ...more], { cwd });
    await nevertwice(['run', WALLET, '--input', PAYMENTS, '--store', 'sqlite:x.db'], { cwd });
    const { code, stdout } = await run();
    expect(code).toBe(0);
    const [heading, row, ...rest] = stdout.split('\n');
    expect(heading).toMatch(/^consumer {2}processed {2}dead letters {2}oldest +newest$/);
    expect(row).toMatch(/^wallet {11}90 {13}0 {2}20\S+Z {2}20\S+Z$/);
    expect(rest).toEqual(['']);
    const json: unknown = JSON.parse((await run('--json')).stdout);
    const time = expect.stringMatching(/^20.*Z$/);
    expect(json).toEqual([{ consumer: 'wallet', processed: 90, deadLetters: 0, oldest: time, newest: time }]);
  });

  test('a file that is not there is not created', async () => {
    const cwd = await folderWith();
    expect(await nevertwice(['stats', '--store', 'sqlite:x.db'], { cwd })).toMatchObject({
      code: 1,
      stdout: '',
      stderr: 'error: there is no file x.db; a consumer creates it at its first start\n',
    });
    expect(existsSync(join(cwd, 'x.db'))).toBe(false);
  });

  test('a database without the tables is one line', async () => {
    const cwd = await folderWith();
    const database = new DatabaseSync(join(cwd, 'x.db'));
    database.exec('CREATE TABLE other (a)');
    database.close();
    const { code, stdout, stderr } = await nevertwice(['stats', '--store', 'sqlite:x.db'], { cwd });
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^error: the tables of sqlite x\.db are missing .*\n$/);
  });

  test('no consumer yet', async () => {
    const cwd = await folderWith();
    await nevertwice(['migrate', '--store', 'sqlite:x.db'], { cwd });
    const run = (...more: string[]) => nevertwice(['stats', '--store', 'sqlite:x.db', ...more], { cwd });
    expect((await run()).stdout).toBe('sqlite x.db: no consumer has started here yet\n');
    expect((await run('--json')).stdout).toBe('[]\n');
  });
});

describe('PostgreSQL', () => {
  let database: FreshDatabase;
  beforeAll(async () => {
    database = await freshDatabase();
  });
  afterAll(() => database.drop());

  test('stats, migrate and its SQL', async () => {
    const on = (command: string, ...more: string[]) => nevertwice([command, '--store', database.url, ...more]);
    const before = await on('stats');
    expect(before).toMatchObject({ code: 2, stdout: '' });
    expect(before.stderr).toMatch(/^error: there are no nevertwice tables here; run nevertwice migrate\n$/);

    const { stdout: sql } = await on('migrate', '--print');
    await database.pool({ max: 1, pipeline: false }).query(sql);
    expect((await on('migrate')).stdout).toMatch(/^postgres .*: nothing to do, the tables fit this version\n$/);
    expect((await on('stats')).stdout).toMatch(/: no consumer has started here yet\n$/);
  });

  test('migrate --print needs no server', async () => {
    const { code, stdout } = await nevertwice(['migrate', '--store', 'postgres:', '--print']);
    expect(code).toBe(0);
    expect(stdout).toContain('CREATE TABLE IF NOT EXISTS "nevertwice"."inbox"');
  });

  test.each([
    [
      'a wrong password',
      (url: URL) => {
        url.password = 'not-the-secret';
      },
      /password authentication failed.*; check user and password\n$/,
    ],
    [
      'no such database',
      (url: URL) => {
        url.pathname = '/no_such_db';
      },
      /database "no_such_db" does not exist; create the database first\n$/,
    ],
    [
      'no server',
      (url: URL) => {
        url.port = '1';
      },
      /ECONNREFUSED.*; no server listens there; check host and port, or start it\n$/,
    ],
  ])('%s: one line, exit code 2, and never the password', async (_, change, expected) => {
    const url = new URL(database.url);
    change(url);
    const { code, stdout, stderr } = await nevertwice(['run', WALLET, '--input', PAYMENTS, '--store', url.href]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^error: cannot connect to PostgreSQL/);
    expect(stderr).toMatch(expected);
    expect(stderr.split('\n')).toHaveLength(2);
    expect(stderr).not.toContain(url.password);
  });
});
