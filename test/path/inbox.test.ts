import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { BatchError, createInbox, isNevertwiceError, Reject, Unavailable } from '../../src/index.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { type AnyStore, allStores, freshName } from './stores.ts';

describe.each(allStores)('$name', ({ name: storeName, create }) => {
  let s: AnyStore;
  beforeAll(async () => {
    s = await create();
  });
  afterAll(() => s.drop());

  async function fixture(policy: object = {}) {
    const name = freshName();
    const wallet = await s.wallet();
    const inbox = createInbox({ name, store: s.store, ...policy });
    const pay = (id: string, amount = 500) =>
      inbox.process({ id, body: { amount } }, async (message, context) => {
        await wallet.credit(context, message.body.amount);
        return `paid ${message.id}`;
      });
    return { name, wallet, inbox, pay };
  }

  test('processed: resolves with what the handler returned, and then duplicate', async () => {
    const { name, wallet, pay } = await fixture();
    expect(await pay('m1')).toEqual({ status: 'processed', result: 'paid m1' });
    // A lease store keeps the result for the next caller; a database keeps the fact.
    const result = storeName === 'memory' ? { result: 'paid m1' } : {};
    expect(await pay('m1')).toEqual({ status: 'duplicate', cause: 'completed', ...result });
    expect([await wallet.balance(), await s.done(name)]).toEqual([500, 1]);
  });

  test('the handler sees the message as it was handed over', async () => {
    const { inbox, wallet } = await fixture();
    const time = new Date(1_700_000_000_000);
    const given = {
      id: 'm1',
      body: { amount: 5 },
      type: 'paid',
      key: 'account-7',
      time,
      position: 'queue:17',
      attempt: 3,
    };
    const seen: unknown[] = [];
    await inbox.process(given, async (message, context) => {
      const { headers, ...rest } = message;
      seen.push(rest, headers.get('message-id'), context.signal.aborted);
      await wallet.credit(context, 1);
    });
    expect(seen).toEqual([given, undefined, false]);
  });

  test.each([
    ['an error', new Error('card declined')],
    ['a string', 'card declined'],
    ['undefined', undefined],
    ['null', null],
    ['a frozen error', Object.freeze(new TypeError('no'))],
  ])('the handler throws %s: rejects with the same, and it is tried afresh next time', async (_, thrown) => {
    const { name, wallet, inbox, pay } = await fixture();
    let calls = 0;
    const failing = inbox.process({ id: 'm1', body: { amount: 500 } }, async (__, context) => {
      calls++;
      if (storeName !== 'memory') await wallet.credit(context, 500);
      throw thrown;
    });
    await expect(
      failing.then(
        () => 'resolved',
        error => [error],
      ),
    ).resolves.toEqual([thrown]);
    await failing.catch(error => expect(error).toBe(thrown));
    expect([calls, await wallet.balance(), await s.done(name)]).toEqual([1, 0, 0]);
    expect(await s.deadLetters(name)).toEqual([]);
    expect(await pay('m1')).toMatchObject({ status: 'processed' });
    expect(await wallet.balance()).toBe(500);
  });

  test('Reject: resolves as dead-lettered, with the letter written', async () => {
    const { name, inbox } = await fixture();
    const outcome = await inbox.process({ id: 'm1', body: { amount: 5 }, key: 'k' }, () => {
      throw new Reject('account closed');
    });
    expect(outcome).toEqual({ status: 'dead-lettered', reason: 'account closed' });
    expect(await s.deadLetters(name)).toMatchObject([
      { id: 'm1', kind: 'rejected', reason: 'account closed', payload: '{"amount":5}' },
    ]);
    expect(await s.done(name)).toBe(0);
  });

  test('a bad id: resolves as dead-lettered, and the reason has nothing of the id', async () => {
    const { name, pay } = await fixture();
    const outcome = await pay('geheim\0');
    expect(outcome).toMatchObject({ status: 'dead-lettered', reason: expect.stringContaining('NT_BAD_ID') });
    expect(JSON.stringify([outcome, (await s.deadLetters(name))[0]!.reason])).not.toContain('geheim');
  });

  test('a handler that outlives timeoutMs: rejects with NT_HANDLER_TIMEOUT', async () => {
    const { wallet, inbox, pay } = await fixture({ timeoutMs: 40, busyWaitMs: 0 });
    const goOn = Promise.withResolvers<void>();
    const zombie = Promise.withResolvers<unknown>();
    let signal: AbortSignal | undefined;
    const slow = inbox.process({ id: 'm1', body: { amount: 500 } }, async (_, context) => {
      signal = context.signal;
      await goOn.promise;
      zombie.resolve(
        wallet.credit(context, 500).then(
          () => 'written',
          error => error,
        ),
      );
    });
    await expect(slow).rejects.toMatchObject({ code: 'NT_HANDLER_TIMEOUT', retryable: true });
    expect(signal!.reason).toMatchObject({ code: 'NT_HANDLER_TIMEOUT' });
    if (storeName === 'memory') {
      // Its effect cannot be taken back, so nobody gets the message while it may still happen; then it is done.
      await expect(pay('m1')).rejects.toMatchObject({ code: 'NT_BUSY' });
      goOn.resolve();
      expect(await zombie.promise).toBe('written');
      expect(await pay('m1')).toMatchObject({ status: 'duplicate' });
    } else {
      expect(await pay('m1')).toMatchObject({ status: 'processed' });
      goOn.resolve();
      expect(await zombie.promise).toMatchObject({ code: 'NT_TX_CLOSED' });
    }
    expect(await wallet.balance()).toBe(500);
  });

  // On SQLite the second one simply has its turn after the first.
  test.skipIf(storeName === 'SQLite')(
    'busy for longer than busyWaitMs: rejects with NT_BUSY; a longer wait is a duplicate',
    async () => {
      const { name, wallet, inbox } = await fixture();
      const impatient = createInbox({ name, store: s.another(), busyWaitMs: 30 });
      const patient = createInbox({ name, store: s.another(), busyWaitMs: 10_000 });
      const started = Promise.withResolvers<void>();
      const goOn = Promise.withResolvers<void>();
      const message = { id: 'm1', body: { amount: 500 } };
      const first = inbox.process(message, async (_, context) => {
        started.resolve();
        await goOn.promise;
        await wallet.credit(context, 500);
      });
      await started.promise;
      await expect(impatient.process(message, () => expect.unreachable())).rejects.toMatchObject({
        code: 'NT_BUSY',
        retryable: true,
      });
      const waiting = patient.process(message, () => expect.unreachable());
      goOn.resolve();
      expect((await first).status).toBe('processed');
      expect((await waiting).status).toBe('duplicate');
      expect(await wallet.balance()).toBe(500);
    },
  );

  test('Unavailable: rejects with it', async () => {
    const { wallet, inbox, pay } = await fixture();
    const down = new Unavailable('the bank');
    await expect(inbox.process({ id: 'm1', body: { amount: 500 } }, () => Promise.reject(down))).rejects.toBe(down);
    expect(down).toMatchObject({ code: 'NT_UNAVAILABLE', retryable: true, message: 'the bank is unavailable' });
    expect(await pay('m1')).toMatchObject({ status: 'processed' });
    expect(await wallet.balance()).toBe(500);
  });

  describe('processBatch', () => {
    test('resolves with an outcome each, in order, when all may be acked', async () => {
      const { name, wallet, inbox, pay } = await fixture();
      await pay('old', 1);
      const outcomes = await inbox.processBatch(
        [
          { id: 'old', body: { amount: 1 } },
          { id: 'm1', body: { amount: 1 } },
          { id: '', body: { amount: 1 } },
          { id: 'm1', body: { amount: 1 } },
          { id: 'm1', body: { amount: 9 } },
          { id: 'bad', body: { amount: 1 } },
          { id: 'm2', body: { amount: 1 } },
        ],
        async (messages, context) => {
          const bad = messages.filter(message => message.id === 'bad');
          for (const message of bad) context.reject(message, 'no such account');
          await wallet.credit(context, messages.length - bad.length);
        },
      );
      expect(outcomes.map(outcome => outcome.status)).toEqual([
        'duplicate',
        'processed',
        'dead-lettered',
        'duplicate',
        'dead-lettered',
        'dead-lettered',
        'processed',
      ]);
      expect((await s.deadLetters(name)).map(letter => letter.kind).sort()).toEqual(['bad-id', 'conflict', 'rejected']);
      expect(await wallet.balance()).toBe(3);
      expect(await inbox.processBatch([], () => expect.unreachable())).toEqual([]);
    });

    test('rejects with BatchError when one may not be acked; its outcomes say which, and with what error', async () => {
      const { wallet, inbox } = await fixture();
      const thrown = new Error('card declined');
      const batch = ['a', 'b', 'c', 'bad', 'd', 'bad', 'e'].map(id => ({ id, body: {} }));
      const set = async (messages: readonly { id: string }[], context: unknown) => {
        if (messages.some(message => message.id === 'bad')) throw thrown;
        await wallet.credit(context, messages.length);
      };
      const error: BatchError = await inbox.processBatch(batch, set).then(
        () => expect.unreachable(),
        e => e,
      );
      expect(error).toBeInstanceOf(BatchError);
      expect(isNevertwiceError(error, 'NT_BATCH')).toBe(true);
      expect(error.message).toBe('2 of 7 messages may not be acked; the first because: card declined');
      expect(error.cause).toBe(thrown);
      expect(error.outcomes).toEqual(
        batch.map(({ id }) =>
          id === 'bad' ? { status: 'rejected', error: thrown } : { status: 'processed', result: undefined },
        ),
      );
      expect(await wallet.balance()).toBe(5);
      const again = await inbox.processBatch(batch, (messages, context) => wallet.credit(context, messages.length));
      expect(again.map(outcome => outcome.status).filter(status => status === 'processed')).toHaveLength(1);
      expect(await wallet.balance()).toBe(6);
    });

    test('a downstream that is down: what was done before it keeps its outcome, the rest may not be acked', async () => {
      const { wallet, inbox } = await fixture();
      const down = new Unavailable('the bank');
      const batch = ['a', 'b', 'c', 'd'].map(id => ({ id, body: {} }));
      const error: BatchError = await inbox
        .processBatch(batch, async (messages, context) => {
          if (messages.some(message => message.id === 'c')) throw down;
          await wallet.credit(context, messages.length);
        })
        .then(
          () => expect.unreachable(),
          e => e,
        );
      const done = error.outcomes.filter(outcome => outcome.status === 'processed').length;
      expect(await wallet.balance()).toBe(done);
      for (const outcome of error.outcomes) if (outcome.status === 'rejected') expect(outcome.error).toBe(down);
      expect(error.outcomes[2]).toEqual({ status: 'rejected', error: down });
    });
  });
});

describe('a store that is down', () => {
  test('PostgreSQL that nobody listens at: NT_STORE_DOWN for one and for a batch, without the password', async () => {
    const port = await closedPort();
    const pool = new Pool({ host: '127.0.0.1', port, user: 'u', password: 'geheim', database: 'd' });
    onTestFinished(() => pool.end());
    const inbox = createInbox({ name: 'pay', store: postgresStore(pool, { acquireTimeoutMs: 2_000 }) });
    const message = { id: 'm1', body: {} };
    const calls = [
      inbox.process(message, () => expect.unreachable()),
      inbox.processBatch([message], () => expect.unreachable()),
    ];
    for (const call of calls) {
      const error = await call.then(
        () => expect.unreachable(),
        e => e,
      );
      expect(error).toMatchObject({ code: 'NT_STORE_DOWN', retryable: true });
      expect(`${error.message} ${error.stack}`).not.toContain('geheim');
    }
  });

  test('SQLite that another connection keeps locked: NT_STORE_DOWN, and the same inbox works once it is free', async () => {
    const root = await mkdtemp(join(tmpdir(), 'nevertwice-inbox-'));
    const file = join(root, 'wallet.db');
    const locker = new DatabaseSync(file);
    const store = sqliteStore(file, { busyTimeoutMs: 30 });
    onTestFinished(async () => {
      await store.close();
      locker.close();
      await rm(root, { recursive: true });
    });
    locker.exec('BEGIN EXCLUSIVE');
    const inbox = createInbox({ name: 'pay', store });
    await expect(inbox.process({ id: 'm1', body: {} }, () => expect.unreachable())).rejects.toMatchObject({
      code: 'NT_STORE_DOWN',
      retryable: true,
    });
    locker.exec('COMMIT');
    expect(await inbox.process({ id: 'm1', body: {} }, () => 1)).toEqual({ status: 'processed', result: 1 });
    locker.exec('BEGIN IMMEDIATE');
    await expect(inbox.process({ id: 'm2', body: {} }, () => expect.unreachable())).rejects.toMatchObject({
      code: 'NT_STORE_DOWN',
    });
    locker.exec('COMMIT');
    expect(await inbox.process({ id: 'm2', body: {} }, () => 2)).toEqual({ status: 'processed', result: 2 });
  });
});

async function closedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise(resolve => server.close(resolve));
  return port;
}
