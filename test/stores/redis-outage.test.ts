import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { encodeKey } from '../../src/identity/encoding.ts';
import { type Claim, createConsumer, type LeaseGrant, type LeaseInbox } from '../../src/index.ts';
import { memorySource } from '../../src/memory.ts';
import { ioredis, type RedisStoreOptions, redisStore } from '../../src/stores/redis/index.ts';
import { type RedisServer, startRedis } from '../support/redis.ts';
import { until } from '../support/until.ts';
import { type ClientKind, openStore, singleClients, type TestClient } from './redis-clients.ts';

// Each test has a server of its own, since it takes it away.
const LEASE_MS = 60_000;
const pay = { name: 'pay', signature: 's/1' };
const m1 = encodeKey('m1');
const down = { code: 'NT_STORE_DOWN', retryable: true };
const ioredisKind = singleClients[1]!;

let server: RedisServer;
let admin: TestClient;
let closing: (() => Promise<void>)[] = [];
beforeEach(async () => {
  server = await startRedis();
  admin = await ioredisKind.connect(server.url);
  closing = [() => admin.end()];
});
afterEach(async () => {
  await Promise.all(closing.map(close => close()));
  await server.stop();
});

async function opened(kind: ClientKind, options: RedisStoreOptions = {}) {
  const { close, ...rest } = await openStore(kind, server.url, options);
  closing.push(close);
  return rest;
}

async function claimOne(inbox: LeaseInbox, claim: Claim = m1, leaseMs = LEASE_MS): Promise<LeaseGrant> {
  return (await inbox.claim([claim], leaseMs))[0]!;
}

const proof = (grant: LeaseGrant, claim: Claim = m1) => ({ claim, nonce: grant.nonce! });

describe.for(singleClients)('with $name', kind => {
  test('C88: a master that became a replica is an outage, gets a new connection, and the completion lands after it', async () => {
    const { store, client } = await opened(kind);
    const inbox = await store.open(pay);
    const owner = await claimOne(inbox);
    const connection = await client.command('CLIENT', 'ID');
    // A replica whose master cannot be reached: it keeps what it has, and refuses writes.
    await admin.command('REPLICAOF', '127.0.0.1', '1');
    await expect(inbox.complete([{ ...proof(owner), result: 'paid' }])).rejects.toMatchObject({
      ...down,
      message: expect.stringContaining('READONLY'),
    });
    // What is asked for just when the connection is exchanged may be lost with it.
    const connected = () => client.command('CLIENT', 'ID').catch(() => connection);
    await until('the client has a new connection', async () => (await connected()) !== connection);
    await expect(store.ping()).rejects.toMatchObject(down);
    await expect(claimOne(inbox, encodeKey('m2'))).rejects.toMatchObject(down);
    await admin.command('REPLICAOF', 'NO', 'ONE');
    await until('the store answers', () =>
      store.ping().then(
        () => true,
        () => false,
      ),
    );
    expect(await inbox.complete([{ ...proof(owner), result: 'paid' }])).toEqual([true]);
    expect((await claimOne(inbox)).answer).toMatchObject({ answer: 'duplicate', result: 'paid' });
  });

  test('C88: a consumer pauses while its master is a replica, and goes on by itself, each message once', async () => {
    const { store } = await opened(kind, { timeoutMs: 500 });
    const handled: string[] = [];
    const ids = Array.from({ length: 40 }, (_, i) => `m${i % 30}`);
    const consumer = createConsumer({
      name: 'pay',
      source: memorySource(ids.map(id => ({ id, body: {} }))),
      store,
      retries: { attempts: 1 },
      handle: async ({ id }) => {
        handled.push(id);
        if (handled.length === 10) {
          await admin.command('REPLICAOF', '127.0.0.1', '1');
          setTimeout(() => void admin.command('REPLICAOF', 'NO', 'ONE'), 300);
        }
      },
    });
    expect(await consumer.run()).toMatchObject({ processed: 30, duplicates: 10, deadLetters: 0 });
    expect(handled.sort()).toEqual([...new Set(ids)].sort());
  });

  test('a server that is killed while nobody asks does not end the process, and one that comes back works', async () => {
    const { store, client } = await opened(kind, { timeoutMs: 300 });
    expect(client.listeners()).toBe(1);
    const inbox = await store.open(pay);
    await server.kill();
    await expect(store.ping()).rejects.toMatchObject(down);
    await expect(claimOne(inbox)).rejects.toMatchObject(down);
    await expect(store.stats()).rejects.toMatchObject(down);
    await server.start();
    await until('the store answers', () =>
      store.ping().then(
        () => true,
        () => false,
      ),
    );
    // What was asked for during the outage may be executed late; nobody is left to hold it.
    const grant = await until('the claim is free', async () => {
      const one = await claimOne(inbox);
      return one.answer.answer === 'fresh' && one;
    });
    expect(await inbox.complete([proof(grant)])).toEqual([true]);
    await store.close();
    expect(client.listeners()).toBe(0);
  });

  test('a server that does not answer is an outage after the time limit, and a late claim is given back', async () => {
    const { store } = await opened(kind, { timeoutMs: 200 });
    const inbox = await store.open(pay);
    await admin.command('CLIENT', 'PAUSE', '1000', 'ALL');
    await expect(claimOne(inbox)).rejects.toMatchObject({ ...down, message: 'Redis did not answer within 200 ms' });
    await until('the server goes on', () =>
      store.ping().then(
        () => true,
        () => false,
      ),
    );
    await until('the late claim is given back', async () => (await inbox.inspect([m1]))[0]!.state === 'released');
    expect((await claimOne(inbox)).answer.answer).toBe('fresh');
  });

  test('a server that has too many clients is an outage', async () => {
    await admin.command('CONFIG', 'SET', 'maxclients', '1');
    const { store } = await opened(kind, { timeoutMs: 500 });
    await expect(store.open(pay)).rejects.toMatchObject(down);
    await admin.command('CONFIG', 'SET', 'maxclients', '100');
    await until('a client gets in', () =>
      store.open(pay).then(
        () => true,
        () => false,
      ),
    );
  });

  test('a server that has forgotten its scripts is given them again', async () => {
    const { store } = await opened(kind);
    const inbox = await store.open(pay);
    const owner = await claimOne(inbox);
    await admin.command('SCRIPT', 'FLUSH');
    expect((await claimOne(inbox)).answer.answer).toBe('busy');
    expect(await inbox.complete([proof(owner)])).toEqual([true]);
  });

  test.for([
    ['OOM', 'maxmemory', '1'],
    ['NOREPLICAS', 'min-replicas-to-write', '1'],
  ])('%s is an outage', async ([code, setting, value]) => {
    const { store } = await opened(kind);
    const inbox = await store.open(pay);
    await admin.command('CONFIG', 'SET', setting!, value!);
    await expect(claimOne(inbox)).rejects.toMatchObject({ ...down, message: expect.stringContaining(code!) });
    await expect(store.ping()).rejects.toMatchObject(down);
    await admin.command('CONFIG', 'SET', setting!, '0');
    expect((await claimOne(inbox)).answer.answer).toBe('fresh');
  });

  test('on a full server what is in flight is recorded and given up, and copies are told', async () => {
    const { store } = await opened(kind);
    const inbox = await store.open(pay);
    const [m2, m3] = [encodeKey('m2'), encodeKey('m3')];
    const [done, given, kept] = await inbox.claim([m1, m2, m3], LEASE_MS);
    await admin.command('CONFIG', 'SET', 'maxmemory', '1');
    expect(await inbox.complete([{ ...proof(done!), result: 'paid' }])).toEqual([true]);
    expect(await inbox.release([proof(given!, m2)])).toEqual([true]);
    const [copy, busy] = await inbox.claim([m1, m3], LEASE_MS);
    expect(copy!.answer).toMatchObject({ answer: 'duplicate', result: 'paid' });
    expect(busy!.answer.answer).toBe('busy');
    await expect(claimOne(inbox, m2)).rejects.toMatchObject(down);
    await admin.command('CONFIG', 'SET', 'maxmemory', '0');
    expect((await claimOne(inbox, m2)).answer.answer).toBe('fresh');
    expect(await inbox.complete([proof(kept!, m3)])).toEqual([true]);
  });

  test('a command that the user may not send, and no password, are NT_CONFIG', async () => {
    const { store } = await opened(kind);
    await store.open(pay);
    await admin.command('ACL', 'SETUSER', 'default', '-evalsha', '-eval');
    await expect(store.open(pay)).rejects.toMatchObject({
      code: 'NT_CONFIG',
      message: expect.stringContaining('NOPERM'),
    });
    await admin.command('ACL', 'SETUSER', 'default', '+@all');
    await store.open(pay);
  });

  test('waiting for replicas: enough of them is an answer, too few is an outage and the claim is given back', async () => {
    await admin.command('CONFIG', 'SET', 'repl-diskless-sync-delay', '0');
    const replica = await startRedis({ settings: { replicaof: `127.0.0.1 ${server.port}` } });
    closing.push(() => replica.stop());
    await until('the replica follows', async () => {
      await admin.command('SET', 'a', 'b');
      return (await admin.command('WAIT', '1', '100')) === 1;
    });
    const [one, two] = await Promise.all(
      // The one that follows may be slow; the one that there is not is waited for in full.
      [
        { replicas: 1, timeoutMs: 10_000 },
        { replicas: 2, timeoutMs: 1_500 },
      ].map(waitForReplicas => opened(kind, { waitForReplicas })),
    );
    const inbox = await one!.store.open(pay);
    const owner = await claimOne(inbox);
    expect(await inbox.complete([proof(owner)])).toEqual([true]);
    const m2 = encodeKey('m2');
    const other = await two!.store.open(pay);
    await expect(claimOne(other, m2)).rejects.toMatchObject({
      ...down,
      message: '1 of 2 replicas had the write within 1500 ms',
    });
    await until('the claim is given back', async () => (await inbox.inspect([m2]))[0]!.state === 'released');
    // What is a duplicate was not written now, and waits for nobody.
    expect((await claimOne(other)).answer.answer).toBe('duplicate');
  });
});

test('NOAUTH is NT_CONFIG, and no error holds the password', async () => {
  await admin.command('CONFIG', 'SET', 'requirepass', 'hunter2');
  const client = await ioredisKind.connect(server.url);
  closing.push(() => client.end());
  const store = redisStore(client.port, { timeoutMs: 1_000 });
  await expect(store.ping()).rejects.toMatchObject({ code: 'NT_CONFIG', message: expect.stringContaining('NOAUTH') });
});

test('a listener that the client has is enough, and is left alone', async () => {
  const client = await ioredisKind.connect(server.url);
  closing.push(() => client.end());
  const first = redisStore(client.port);
  const second = redisStore(client.port);
  expect(client.listeners()).toBe(1);
  await second.close();
  expect(client.listeners()).toBe(1);
  await first.close();
  expect(client.listeners()).toBe(0);
});

test('a client that was closed is an outage', async () => {
  const { Redis } = await import('ioredis');
  const client = new Redis(server.url);
  const store = redisStore(ioredis(client));
  await store.ping();
  await client.quit();
  await expect(store.ping()).rejects.toMatchObject(down);
});
