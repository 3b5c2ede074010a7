import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { symlinkSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { classifyFailure } from '../../src/core/failures.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { clients, temporaryFile } from './sqlite-clients.ts';
import { budget, claimOf, walletOn } from './sqlite-support.ts';

const nothing = async () => undefined;

/** A clock that tells when the store waits for a lock. */
function watchedClock() {
  const waiting = Promise.withResolvers<void>();
  const sleep = (ms: number) => {
    waiting.resolve();
    return systemClock.sleep(ms);
  };
  return { clock: { ...systemClock, sleep }, waiting: waiting.promise };
}

/** Another process that holds the write lock of the file until `release`. */
async function lockHolder(path: string) {
  const program = fileURLToPath(new URL('sqlite-lock-holder.ts', import.meta.url));
  const child = spawn(process.execPath, [program, path], { stdio: ['pipe', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  const exited = once(child, 'exit');
  return {
    async release() {
      child.stdin.end();
      await exited;
    },
  };
}

describe.each(Object.keys(clients))('locks on %s', client => {
  test('C10: two lanes never share a transaction: one rolls back, the other stays', async () => {
    await using wallet = await walletOn(client);
    const credit = (id: string, amount: number, fails: boolean) =>
      wallet.inbox.transaction([claimOf(id)], budget, async ({ sql, fresh }) => {
        await sql`INSERT INTO wallet (amount) VALUES (${amount})`;
        await systemClock.sleep(50);
        if (fails) throw new Error('a fails');
        return fresh;
      });
    const a = credit('a', 100, true);
    const b = credit('b', 500, false);
    await expect(a).rejects.toThrow('a fails');
    await expect(b).resolves.toEqual([true]);
    expect(wallet.amounts()).toEqual([500]);
    await wallet.inbox.transaction([claimOf('a'), claimOf('b')], budget, async unit =>
      expect(unit.fresh).toEqual([true, false]),
    );
  });

  test('C09: the event loop runs on while another process holds the lock, and the claim goes through after it', async () => {
    const { clock, waiting } = watchedClock();
    await using wallet = await walletOn(client, { clock });
    const holder = await lockHolder(wallet.path);
    const claimed = wallet.inbox.transaction([claimOf('m1')], budget, async unit => unit.fresh);
    await waiting;
    expect(await timerLateness(500)).toBeLessThan(100);
    await holder.release();
    await expect(claimed).resolves.toEqual([true]);
  });

  test('a lock that is not given up in time is an outage that says so', async () => {
    await using wallet = await walletOn(client, { busyTimeoutMs: 60 });
    const holder = await lockHolder(wallet.path);
    const error = await wallet.inbox.transaction([claimOf('m1')], budget, nothing).catch(thrown => thrown);
    expect(error).toMatchObject({ code: 'NT_STORE_DOWN', retryable: true });
    expect(error.message).toMatch(/database is locked by another process for \d+ ms/);
    expect(classifyFailure(error)).toBe('transient');
    await expect(wallet.store.ping()).rejects.toMatchObject({ code: 'NT_STORE_DOWN' });
    await holder.release();
    await wallet.store.ping();
    await wallet.inbox.transaction([claimOf('m1')], budget, async unit => expect(unit.fresh).toEqual([true]));
  });

  test('C09: a commit that finds the file busy is tried again, with everything still in it', async () => {
    const { clock, waiting } = watchedClock();
    await using wallet = await walletOn(client, { clock });
    // With a rollback journal a reader stands in the way of a commit.
    wallet.database.exec('PRAGMA journal_mode = DELETE');
    // By the same client: locks of two copies of SQLite in one process do not see each other.
    const reader = clients[client]!(wallet.path);
    reader.exec('BEGIN; SELECT count(*) FROM wallet');
    reader.prepare('SELECT * FROM wallet').all();
    const credited = wallet.inbox.transaction(
      [claimOf('m1')],
      budget,
      ({ sql }) => sql`INSERT INTO wallet (amount) VALUES (500)`,
    );
    await waiting;
    reader.exec('COMMIT');
    await credited;
    reader.close();
    expect(wallet.amounts()).toEqual([500]);
    await wallet.inbox.transaction([claimOf('m1')], budget, async unit => expect(unit.fresh).toEqual([false]));
  });

  test('stores on one file wait for each other in line, also through a link, and not for the lock', async () => {
    await using wallet = await walletOn(client, { busyTimeoutMs: 0 });
    const link = `${wallet.path}.link`;
    symlinkSync(wallet.path, link);
    const database = clients[client]!(link);
    const other = await sqliteStore(database, { busyTimeoutMs: 0 }).open({ name: 'ledger', signature: 's/1' });
    const order: string[] = [];
    await Promise.all([
      wallet.inbox.transaction([claimOf('m1')], budget, async () => {
        await systemClock.sleep(20);
        order.push('first');
      }),
      other.transaction([claimOf('m1')], budget, async unit => {
        order.push(`second ${unit.fresh}`);
      }),
    ]);
    database.close();
    expect(order).toEqual(['first', 'second false']);
  });

  test('a transaction asked for inside another one on the same file is refused: it would wait for itself', async () => {
    await using wallet = await walletOn(client);
    const nested = wallet.inbox.transaction([claimOf('m1')], budget, () =>
      wallet.inbox.transaction([claimOf('m2')], budget, nothing),
    );
    await expect(nested).rejects.toMatchObject({
      code: 'NT_TX_FORBIDDEN',
      message: expect.stringMatching(/wait for itself/),
    });
    const saving = wallet.store.transaction(() => wallet.store.positions.save('ledger', 'l', '1'));
    await expect(saving).rejects.toMatchObject({ code: 'NT_TX_FORBIDDEN' });
    // What a handler has started and not awaited may go on once the transaction is over.
    let started: Promise<unknown> | undefined;
    const [over, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    await wallet.inbox.transaction([claimOf('m3')], budget, async () => {
      started = go.promise.then(() => wallet.inbox.transaction([claimOf('m4')], budget, async unit => unit.fresh));
    });
    over.resolve();
    go.resolve();
    await expect(started).resolves.toEqual([true]);
  });

  test('a transaction that the caller left open on the handle is waited for, and named', async () => {
    const { clock, waiting } = watchedClock();
    await using wallet = await walletOn(client, { clock });
    wallet.database.exec('BEGIN');
    const claimed = wallet.inbox.transaction([claimOf('m1')], budget, async unit => unit.fresh);
    await waiting;
    wallet.database.exec('COMMIT');
    await expect(claimed).resolves.toEqual([true]);
    wallet.database.exec('BEGIN');
    const impatient = sqliteStore(wallet.database, { busyTimeoutMs: 20 });
    await expect(impatient.ping()).rejects.toMatchObject({
      code: 'NT_STORE_DOWN',
      message: expect.stringMatching(/its handle has had another transaction open/),
    });
    wallet.database.exec('ROLLBACK');
  });

  test('a lock never blocks, and a commit waits for the disk, whatever the handle was set to', async () => {
    await using wallet = await walletOn(client);
    const value = (name: string) => Object.values(wallet.database.prepare(`PRAGMA ${name}`).all()[0] as object)[0];
    expect([value('busy_timeout'), value('synchronous')]).toEqual([0, 2]);
    // One client lowers it by itself at the first transaction in WAL mode, unless it was set by name.
    const another = clients[client]!(wallet.path);
    another.exec('PRAGMA journal_mode = WAL');
    await sqliteStore(another).ping();
    expect(Object.values(another.prepare('PRAGMA synchronous').all()[0] as object)[0]).toBe(2);
    another.close();
    wallet.database.exec('PRAGMA busy_timeout = 3000; PRAGMA synchronous = NORMAL');
    await sqliteStore(wallet.database).ping();
    expect([value('busy_timeout'), value('synchronous')]).toEqual([0, 2]);
  });
});

test('a path is opened in WAL mode with full synchronous, and closed again', async () => {
  const { path, remove } = temporaryFile();
  const store = sqliteStore(path);
  const pragmas = await store.transaction((_, sql) => sql`SELECT * FROM pragma_journal_mode, pragma_synchronous`);
  expect(pragmas).toEqual([{ journal_mode: 'wal', synchronous: 2 }]);
  await store.close();
  await store.close();
  await expect(store.ping()).rejects.toMatchObject({ code: 'NT_CONFIG', message: expect.stringMatching(/closed/) });
  remove();
});

test('closing waits for the transaction that is open', async () => {
  const { path, remove } = temporaryFile();
  const store = sqliteStore(path);
  const inbox = await store.open({ name: 'ledger', signature: 's/1' });
  const done = inbox.transaction([claimOf('m1')], budget, async () => {
    await systemClock.sleep(20);
    return 'committed';
  });
  await Promise.all([expect(done).resolves.toBe('committed'), store.close()]);
  remove();
});

/**
 * How late nine in ten timers of 5 ms come during `ms`, at worst: a busy machine may make one late, a frozen event loop
 * makes all of them so.
 */
async function timerLateness(ms: number): Promise<number> {
  const late: number[] = [];
  for (const start = performance.now(); performance.now() - start < ms; ) {
    const asked = performance.now();
    await systemClock.sleep(5);
    late.push(performance.now() - asked - 5);
  }
  return late.sort((a, b) => a - b)[Math.floor(late.length * 0.9)]!;
}
