import { copyFile, mkdir, readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import { packedApp } from '../support/packed.ts';
import { freshDatabase } from '../support/postgres.ts';
import { folderWith, line, nevertwice, PAYMENTS, WALLET } from './program.ts';

// The program as users have it: built, packed, installed, and started as `npx nevertwice` starts it.
let app: string;
let main: string;
beforeAll(async () => {
  app = await packedApp();
  main = join(app, 'node_modules/nevertwice/dist/cli/main.js');
}, 60_000);

/** A project with the example in it, and these packages of this repository beside nevertwice. */
async function project(...packages: readonly string[]): Promise<string> {
  const folder = await folderWith({ 'package.json': '{ "private": true, "type": "module" }\n' });
  await mkdir(join(folder, 'node_modules'));
  await symlink(join(app, 'node_modules/nevertwice'), join(folder, 'node_modules/nevertwice'));
  for (const name of packages) {
    await symlink(
      fileURLToPath(new URL(`../../node_modules/${name}`, import.meta.url)),
      join(folder, 'node_modules', name),
    );
  }
  await copyFile(WALLET, join(folder, 'consumer.ts'));
  await copyFile(PAYMENTS, join(folder, 'payments.jsonl'));
  return folder;
}

describe('from the packed tarball', () => {
  test('--version and --help', async () => {
    const { version } = JSON.parse(await readFile(join(app, 'node_modules/nevertwice/package.json'), 'utf8')) as {
      version: string;
    };
    expect(await nevertwice(['--version'], { main })).toMatchObject({ code: 0, stdout: `${version}\n`, stderr: '' });
    const fromSource = await nevertwice(['--help']);
    expect(await nevertwice(['--help'], { main })).toMatchObject({ code: 0, stdout: fromSource.stdout });
  });

  test('run, on SQLite', async () => {
    const cwd = await project();
    const args = ['run', 'consumer.ts', '--input', 'payments.jsonl', '--store', 'sqlite:wallet.db'];
    expect(await nevertwice(args, { cwd, main })).toMatchObject({ code: 0, stdout: line(90, 10), stderr: '' });
    expect(await nevertwice(args, { cwd, main })).toMatchObject({ code: 0, stdout: line(0, 0) });
  });

  test('run, on PostgreSQL with the project’s own pg', async () => {
    const database = await freshDatabase();
    const cwd = await project('pg');
    const args = ['run', 'consumer.ts', '--input', 'payments.jsonl', '--store', database.url, '--json'];
    const { code, stdout } = await nevertwice(args, { cwd, main });
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ processed: 90, duplicates: 10 });
    await database.drop();
  });

  test('run, on PostgreSQL without pg', async () => {
    const cwd = await project();
    const args = ['run', 'consumer.ts', '--input', 'payments.jsonl', '--store', 'postgres://app@127.0.0.1/shop'];
    expect(await nevertwice(args, { cwd, main })).toMatchObject({
      code: 1,
      stdout: '',
      stderr: 'error: --store postgres://… needs the client pg, which is not installed here: npm install pg\n',
    });
  });

  test('migrate and stats', async () => {
    const cwd = await folderWith();
    const run = (...args: string[]) => nevertwice([...args, '--store', 'sqlite:x.db'], { cwd, main });
    expect((await run('migrate', '--print')).stdout).toContain('CREATE TABLE');
    expect(await run('migrate')).toMatchObject({ code: 0, stdout: 'sqlite x.db: applied migrations 1, 2, 3\n' });
    expect(await run('stats')).toMatchObject({ code: 0, stdout: 'sqlite x.db: no consumer has started here yet\n' });
  });

  test('demo', async () => {
    const { code, stdout, stderr } = await nevertwice(['demo', '--kills', '2', '--json'], { main });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect((JSON.parse(stdout) as { proved: boolean }).proved).toBe(true);
  }, 60_000);
});
