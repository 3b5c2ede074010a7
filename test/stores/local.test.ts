import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as turn } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type LocalOptions, localStore } from '../../src/stores/local/index.ts';
import { LeaseFile } from '../../src/stores/local/lease-file.ts';
import { localSettings } from '../../src/stores/local/options.ts';
import { until } from '../support/until.ts';
import { answerTo, claimOne, completeOne, consumer, ledgerOn, temporaryPath, wallClock } from './local-support.ts';
import { claimOf, letterOf } from './sqlite-support.ts';

let file: ReturnType<typeof temporaryPath>;
beforeEach(() => {
  file = temporaryPath();
});
afterEach(() => file.remove());

/** Looks into the file beside the store, as a person would. */
function look<R>(query: string): R {
  const database = new DatabaseSync(file.path, { readOnly: true });
  try {
    return Object.values(database.prepare(query).get()!)[0] as R;
  } finally {
    database.close();
  }
}

describe('what is kept', () => {
  test('everything, over a close and the next open', async () => {
    const clock = wallClock();
    const first = await ledgerOn(file.path, { clock });
    await completeOne(first.inbox, 'done', { charge: 'ch_1' });
    const held = await claimOne(first.inbox, 'held');
    const given = await claimOne(first.inbox, 'given');
    await first.inbox.release([{ claim: claimOf('given'), nonce: given.nonce! }]);
    await first.inbox.deadLetter([letterOf('01', { key: 'account-1' })]);
    await first.store.positions.save('ledger', 'file:a', '17');
    await first.store.close();

    const { store, inbox } = await ledgerOn(file.path, { clock });
    expect((await claimOne(inbox, 'done')).answer).toEqual({
      answer: 'duplicate',
      at: new Date(clock.now()),
      result: { charge: 'ch_1' },
    });
    expect((await claimOne(inbox, 'held')).answer).toEqual({ answer: 'busy', until: new Date(clock.now() + 60_000) });
    const next = await claimOne(inbox, 'given');
    expect(next.token).toBe(given.token! + 1n);
    // The owner's proof outlives the process, too.
    expect(await inbox.complete([{ claim: claimOf('held'), nonce: held.nonce! }])).toEqual([true]);
    expect([...(await inbox.blockedKeys(['account-1', 'account-2']))]).toEqual(['account-1']);
    expect(await store.positions.load('ledger', 'file:a')).toBe('17');
    expect(await store.stats()).toMatchObject([{ consumer: 'ledger', processed: 2, deadLetters: 1 }]);
    await expect(store.open({ ...consumer, signature: 's/2' })).rejects.toMatchObject({ code: 'NT_CONFIG' });
    await store.close();
  });

  test('inspect tells each state and changes nothing', async () => {
    const clock = wallClock();
    const { store, inbox } = await ledgerOn(file.path, { clock, retentionMs: 1_000 });
    const state = async (id: string) => (await inbox.inspect([claimOf(id)]))[0];
    expect(await state('m1')).toEqual({ state: 'absent' });
    const { nonce, token } = await claimOne(inbox, 'm1', 500);
    expect(await state('m1')).toEqual({ state: 'claimed', token, until: new Date(clock.now() + 500) });
    expect(await inbox.renew([{ claim: claimOf('m1'), nonce: nonce! }], 700)).toEqual([true]);
    expect(await state('m1')).toEqual({ state: 'claimed', token, until: new Date(clock.now() + 700) });
    await inbox.release([{ claim: claimOf('m1'), nonce: nonce! }]);
    expect(await state('m1')).toEqual({ state: 'released', token });
    await completeOne(inbox, 'm1', 'paid');
    expect(await state('m1')).toEqual({ state: 'done', at: new Date(clock.now()), result: 'paid' });
    clock.pass(1_000);
    expect(await state('m1')).toEqual({ state: 'absent' });
    await store.close();
  });

  test('C85: an owner who was replaced changes nothing, in another store on the file either, and is counted', async () => {
    const clock = wallClock();
    const [one, two] = [await ledgerOn(file.path, { clock }), await ledgerOn(file.path, { clock })];
    const old = await claimOne(one.inbox, 'm1', 1_000);
    clock.pass(1_000);
    const owner = await claimOne(two.inbox, 'm1', 1_000);
    expect(owner.token! > old.token!).toBe(true);
    const stale = [{ claim: claimOf('m1'), nonce: old.nonce! }];
    expect(await one.inbox.renew(stale, 9_000)).toEqual([false]);
    expect(await one.inbox.complete(stale)).toEqual([false]);
    expect(await one.inbox.release(stale)).toEqual([false]);
    expect([one.store.staleCalls, two.store.staleCalls]).toEqual([3, 0]);
    expect(await one.inbox.inspect([claimOf('m1')])).toMatchObject([{ until: new Date(clock.now() + 1_000) }]);
    await one.store.close();
    await two.store.close();
  });

  test('results come back as they were; what JSON cannot carry is refused, and its batch is not half written', async () => {
    const { store, inbox } = await ledgerOn(file.path);
    const results = [null, 0, '', [1, { a: true }], { at: new Date(0) }];
    for (const [i, result] of results.entries()) {
      await completeOne(inbox, `m${i}`, result);
      expect((await claimOne(inbox, `m${i}`)).answer).toMatchObject({ result: JSON.parse(JSON.stringify(result)) });
    }
    const circular: Record<string, unknown> = {};
    circular.self = circular;
    const claims = [claimOf('good'), claimOf('bad')];
    const [good, bad] = await inbox.claim(claims, 60_000);
    const unfit = { amount: 5n, call: () => 1, nan: Number.NaN, map: new Map(), bytes: new Uint8Array(1), circular };
    for (const [name, value] of Object.entries(unfit)) {
      const items = [
        { claim: claims[0]!, nonce: good!.nonce!, result: 'kept' },
        { claim: claims[1]!, nonce: bad!.nonce!, result: { [name]: value } },
      ];
      await expect(inbox.complete(items)).rejects.toMatchObject({
        code: 'NT_CONFIG',
        message: expect.stringContaining(name === 'circular' ? 'itself' : `"${name}" in it`),
      });
    }
    expect(await inbox.inspect(claims)).toMatchObject([{ state: 'claimed' }, { state: 'claimed' }]);
    await store.close();
  });
});

describe('time', () => {
  test('C92: a wall clock that is set back neither ends nor prolongs a lease, and time goes on', async () => {
    const clock = wallClock();
    const { store, inbox } = await ledgerOn(file.path, { clock });
    const first = await claimOne(inbox, 'm1', 60_000);
    await completeOne(inbox, 'm2');
    clock.pass(-180_000);
    // Another process begins on the clock as it is now.
    const late = await ledgerOn(file.path, { clock });
    for (const { inbox: either } of [late, { inbox }]) {
      expect(await answerTo(either, 'm1')).toBe('busy');
      clock.pass(20_000);
      expect(await answerTo(either, 'm1')).toBe('busy');
    }
    clock.pass(20_000);
    const next = await claimOne(late.inbox, 'm1', 60_000);
    expect(next.answer.answer).toBe('fresh');
    expect(next.token! > first.token!).toBe(true);
    expect((await claimOne(inbox, 'm3')).token! > first.token!).toBe(true);
    expect(await answerTo(inbox, 'm2')).toBe('duplicate');
    await store.close();
    await late.store.close();
  });

  test('C91: retention counts from completion, not from the claim', async () => {
    const clock = wallClock();
    const { store, inbox } = await ledgerOn(file.path, { clock, retentionMs: 60_000 });
    const { nonce } = await claimOne(inbox, 'm1', 120_000);
    clock.pass(59_000);
    await inbox.complete([{ claim: claimOf('m1'), nonce: nonce! }]);
    clock.pass(59_999);
    expect(await answerTo(inbox, 'm1')).toBe('duplicate');
    expect(await store.stats()).toMatchObject([{ processed: 1 }]);
    clock.pass(1);
    expect(await store.stats()).toMatchObject([{ processed: 0, oldest: undefined }]);
    expect(await answerTo(inbox, 'm1')).toBe('fresh');
    await store.close();
  });

  test('C91: what has expired leaves the file though nobody asks for it, given-up and abandoned claims too', async () => {
    const clock = wallClock();
    const options: LocalOptions = { clock, retentionMs: 50 };
    const { store, inbox } = await ledgerOn(file.path, options);
    await completeOne(inbox, 'done');
    await claimOne(inbox, 'abandoned', 100);
    const { nonce } = await claimOne(inbox, 'given');
    await inbox.release([{ claim: claimOf('given'), nonce: nonce! }]);
    clock.pass(149);
    await until('two have gone', () => look('SELECT count(*) FROM ids') === 1);
    clock.pass(1);
    await until('all have gone', () => look('SELECT count(*) FROM ids') === 0);
    await store.close();
  });

  test('C91: under load the file stays as small as what it must remember, and shrinks after a peak', async () => {
    const bytes = () => statSync(file.path).size + statSync(`${file.path}-wal`).size;
    const clock = wallClock();
    const { store, inbox } = await ledgerOn(file.path, { clock, retentionMs: 20 });
    const batch = async (round: number, ms = 2) => {
      const claims = Array.from({ length: 250 }, (_, i) => claimOf(`message-${round}-${i}`));
      const grants = await inbox.claim(claims, 60_000);
      await inbox.complete(
        grants.map((grant, i) => ({ claim: claims[i]!, nonce: grant.nonce!, result: 'r'.repeat(200) })),
      );
      clock.pass(ms);
      await turn();
    };
    let round = 0;
    for (; round < 40; round++) await batch(round);
    await until('it was swept', () => look<number>('SELECT count(*) FROM ids') < 40 * 250);
    const [early, heap] = [bytes(), process.memoryUsage().heapUsed];
    for (; round < 160; round++) await batch(round);
    expect(bytes()).toBeLessThan(2 * early);
    expect(process.memoryUsage().heapUsed - heap).toBeLessThan(50 * 2 ** 20);
    for (; round < 200; round++) await batch(round, 0);
    const pages = () => look<number>('PRAGMA page_count');
    const full = pages();
    clock.pass(21);
    await until('the file has given its pages back', () => pages() < full / 4);
    await store.close();
  });
});

describe('a file that is not ours to use', () => {
  async function refusal(): Promise<string> {
    const before = readFileSync(file.path);
    const store = localStore(file.path);
    const error = await store.open(consumer).then(
      () => expect.unreachable(),
      (thrown: Error & { code: string }) => thrown,
    );
    await store.close();
    expect(error.code).toBe('NT_CONFIG');
    expect(error.message).not.toContain('\n');
    expect(error.message).toContain(file.path);
    expect(error.message).toContain('every message is then new again');
    expect(readFileSync(file.path).equals(before)).toBe(true);
    return error.message;
  }

  test('random bytes are refused and left as they are', async () => {
    writeFileSync(file.path, randomBytes(10_000));
    expect(await refusal()).toContain('damaged');
  });

  test('a file that was cut short is refused and left as it is', async () => {
    const { store, inbox } = await ledgerOn(file.path);
    for (let i = 0; i < 100; i++) await completeOne(inbox, `m${i}`, 'r'.repeat(100));
    await store.close();
    truncateSync(file.path, 8_192);
    expect(await refusal()).toContain('damaged');
    truncateSync(file.path, 100);
    expect(await refusal()).toContain('damaged');
  });

  test('the database of another application is refused and left in its own mode', async () => {
    const other = new DatabaseSync(file.path);
    other.exec('CREATE TABLE wallet (id INTEGER PRIMARY KEY)');
    other.close();
    expect(await refusal()).toContain('another application');
    expect(look('PRAGMA journal_mode')).toBe('delete');
  });

  test('damage that shows later is told in the same words', async () => {
    const { store, inbox } = await ledgerOn(file.path);
    for (let i = 0; i < 2_000; i++) await completeOne(inbox, `m${i}`);
    await store.close();
    const bytes = readFileSync(file.path);
    writeFileSync(file.path, bytes.fill(0xa5, bytes.length / 2, bytes.length - 4_096));
    const damaged = await ledgerOn(file.path);
    const claims = Array.from({ length: 2_000 }, (_, i) => claimOf(`m${i}`));
    await expect(damaged.inbox.claim(claims, 1_000)).rejects.toMatchObject({
      code: 'NT_CONFIG',
      message: expect.stringContaining('every message is then new again'),
    });
    await damaged.store.close();
  });

  test('the format of a later version asks for a later version', async () => {
    await (await ledgerOn(file.path)).store.close();
    const later = new DatabaseSync(file.path);
    later.exec('PRAGMA user_version = 99');
    later.close();
    const store = localStore(file.path);
    await expect(store.open(consumer)).rejects.toMatchObject({ code: 'NT_SCHEMA' });
    await store.close();
  });

  test('a directory that is missing, an option that is wrong, and a store that was closed are NT_CONFIG', async () => {
    const store = localStore(join(file.folder, 'missing', 'leases.db'));
    await expect(store.open(consumer)).rejects.toMatchObject({ code: 'NT_CONFIG' });
    await store.close();
    await expect(store.open(consumer)).rejects.toMatchObject({ code: 'NT_CONFIG' });
    await expect(store.ping()).rejects.toMatchObject({ code: 'NT_CONFIG' });
    for (const path of ['', ':memory:', undefined as unknown as string]) {
      expect(() => localStore(path)).toThrow(expect.objectContaining({ code: 'NT_CONFIG' }));
    }
    for (const options of [{ retentionMs: 0 }, { retentionMs: Number.NaN }, { busyTimeoutMs: -1 }]) {
      expect(() => localStore(file.path, options)).toThrow(expect.objectContaining({ code: 'NT_CONFIG' }));
    }
  });
});

describe('when it cannot write', () => {
  test('another writer is waited for without blocking, and for no longer than busyTimeoutMs', async () => {
    const { store, inbox } = await ledgerOn(file.path, { busyTimeoutMs: 200 });
    const other = new DatabaseSync(file.path);
    other.exec('BEGIN IMMEDIATE');
    const late = await claimOne(inbox, 'm1').then(
      () => expect.unreachable(),
      (error: unknown) => error,
    );
    expect(late).toMatchObject({ code: 'NT_STORE_DOWN', retryable: true });
    const claim = claimOne(inbox, 'm1');
    await turn();
    other.exec('COMMIT');
    expect((await claim).answer.answer).toBe('fresh');
    other.close();
    await store.close();
  });

  test('what lanes write together waits for it together, and not one after the other', async () => {
    const { store, inbox } = await ledgerOn(file.path, { busyTimeoutMs: 200 });
    const other = new DatabaseSync(file.path);
    other.exec('BEGIN IMMEDIATE');
    let refused = 0;
    const late = ['m1', 'm2', 'm3'].map(id => claimOne(inbox, id).catch(() => refused++));
    await Promise.race(late);
    await turn();
    expect(refused).toBe(3);
    other.exec('COMMIT');
    other.close();
    await store.close();
  });

  test.skipIf(process.platform === 'win32')('a full disk is NT_STORE_DOWN, and nothing before it is lost', async () => {
    await (await ledgerOn(file.path)).store.close();
    const program = fileURLToPath(new URL('local-full-disk.ts', import.meta.url));
    // The limit on the size of a file stands for the end of the disk; in blocks of 512 bytes.
    const limited = `trap '' XFSZ; ulimit -f 600; exec "$0" "$@"`;
    const child = spawn('sh', ['-c', limited, process.execPath, program, file.path], {
      stdio: ['ignore', 'inherit', 'pipe'],
    });
    const [said] = (await once(child.stderr, 'data')) as [Buffer];
    expect((await once(child, 'close'))[0]).toBe(0);
    const { completed, code } = JSON.parse(String(said)) as { completed: number; code: string };
    expect(code).toBe('NT_STORE_DOWN');
    expect(completed).toBeGreaterThan(0);

    const { store, inbox } = await ledgerOn(file.path);
    expect(await store.stats()).toMatchObject([{ processed: completed }]);
    await completeOne(inbox, 'after');
    await store.close();
  });

  test.each([
    [true, 2],
    [false, 1],
  ])('durable: %s sets synchronous to %i', async (durable, synchronous) => {
    const lease = new LeaseFile('local', file.path, localSettings({ durable }));
    expect(await lease.read(connection => connection.all('PRAGMA synchronous'))).toEqual([{ synchronous }]);
    await lease.close();
  });
});
