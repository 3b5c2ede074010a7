import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { KILLS, timeLimit } from '../support/counts.ts';
import { SEED, seeded } from '../support/random.ts';
import { until } from '../support/until.ts';
import { EXPECTED, makePayments } from './payments.ts';
import { folderWith, line, nevertwice, PAYMENTS, start, WALLET } from './program.ts';

/** A database that the wallet of the example can live in. */
export interface WalletDatabase {
  /** For `--store`. */
  readonly url: string;
  /** Cents by customer; empty before the first start. */
  balances(): Promise<Record<string, number>>;
  /** Rows of the inbox; 0 before the first start. */
  done(): Promise<number>;
  drop(): Promise<void>;
}

const ROUNDS = Math.max(3, Math.ceil(KILLS / 5));
const LINES = 4_000;

/** What `nevertwice run examples/wallet/consumer.ts` promises, on any database. */
export function walletSuite(name: string, create: (folder: string) => Promise<WalletDatabase>): void {
  const run = (database: WalletDatabase, input: string, cwd: string) =>
    nevertwice(['run', WALLET, '--input', input, '--store', database.url], { cwd });

  test(`${name}: applies each payment once; again, under another name, or from a pipe it changes nothing more`, async () => {
    const folder = await folderWith();
    const database = await create(folder);
    expect(await run(database, PAYMENTS, folder)).toMatchObject({ code: 0, stdout: line(90, 10), stderr: '' });
    expect(await database.balances()).toEqual(EXPECTED);

    const again = await run(database, PAYMENTS, folder);
    expect(again).toMatchObject({ code: 0, stdout: line(0, 0) });
    expect(again.stderr).toContain('nothing new');

    const copy = join(folder, 'copy.jsonl');
    await copyFile(PAYMENTS, copy);
    expect(await run(database, copy, folder)).toMatchObject({ code: 0, stdout: line(0, 100) });

    const input = await readFile(PAYMENTS, 'utf8');
    const piped = nevertwice(['run', WALLET, '--input', '-', '--store', database.url, '--json'], {
      cwd: folder,
      input,
    });
    const nothing = { processed: 0, duplicates: 100, conflicts: 0, deadLetters: 0, failed: 0 };
    expect(JSON.parse((await piped).stdout)).toEqual(nothing);
    expect(await database.balances()).toEqual(EXPECTED);
    await database.drop();
  }, 60_000);

  test(
    `${name}: killed with SIGKILL again and again, every balance is right in the end (seed ${SEED})`,
    async () => {
      const random = seeded(SEED);
      const folder = await folderWith();
      const database = await create(folder);
      const { jsonl, payments, balances } = makePayments(random, LINES);
      const input = join(folder, 'payments.jsonl');
      await writeFile(input, jsonl);

      let hits = 0;
      for (let round = 0; round < ROUNDS; round++) {
        const { child, ended } = start(['run', WALLET, '--input', input, '--store', database.url], { cwd: folder });
        // The last rounds may find everything done already and end by themselves.
        const enough = (await database.done()) + 1 + random.below(Math.ceil(payments / ROUNDS));
        await until(
          'so many payments are done, or the run has ended',
          async () => {
            return child.exitCode !== null || (await database.done()) >= enough;
          },
          30_000,
        );
        child.kill('SIGKILL');
        if ((await ended).signal === 'SIGKILL') hits += 1;
      }
      expect(hits).toBeGreaterThanOrEqual(2);
      expect(await run(database, input, folder)).toMatchObject({ code: 0 });
      expect(await database.balances()).toEqual(balances);
      expect(await database.done()).toBe(payments);

      await database.drop();
    },
    timeLimit(5_000),
  );

  test(`C02: ${name}: two processes that read the same file at once share its payments`, async () => {
    const folder = await folderWith();
    const database = await create(folder);
    const counts = async () => {
      const { code, stdout } = await nevertwice(
        ['run', WALLET, '--input', PAYMENTS, '--store', database.url, '--json'],
        { cwd: folder },
      );
      expect(code).toBe(0);
      return JSON.parse(stdout) as { processed: number; duplicates: number; failed: number };
    };
    const [one, other] = await Promise.all([counts(), counts()]);
    expect(one.processed + other.processed).toBe(90);
    expect(one.failed + other.failed).toBe(0);
    expect(await database.balances()).toEqual(EXPECTED);
    await database.drop();
  }, 60_000);
}
