import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { encodeKey } from '../../src/identity/encoding.ts';
import type { LeaseGrant } from '../../src/index.ts';
import type { RedisStoreOptions } from '../../src/stores/redis/index.ts';
import { type RedisServer, startRedis } from '../support/redis.ts';
import { openStore, singleClients, type TestClient } from './redis-clients.ts';

const LEASE_MS = 60_000;
const pay = { name: 'pay', signature: 's/1' };
const m1 = encodeKey('m1');
const ioredisKind = singleClients[1]!;

let server: RedisServer;
let admin: TestClient;
beforeAll(async () => {
  server = await startRedis();
  admin = await ioredisKind.connect(server.url);
});
afterAll(async () => {
  await admin.end();
  await server.stop();
});

const closing: (() => Promise<void>)[] = [];
beforeEach(async () => {
  await admin.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
  await admin.command('CONFIG', 'SET', 'maxmemory', '0');
  await admin.command('FLUSHALL');
});
afterEach(async () => {
  await Promise.all(closing.splice(0).map(close => close()));
});

async function opened(options: RedisStoreOptions = {}) {
  const { store, close } = await openStore(ioredisKind, server.url, options);
  closing.push(close);
  return store;
}

const proof = (grant: LeaseGrant) => ({ claim: m1, nonce: grant.nonce! });

test('C87: a server that may evict is refused by the name of its policy, unless that is allowed', async () => {
  await admin.command('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
  const store = await opened();
  await expect(store.open(pay)).rejects.toMatchObject({
    code: 'NT_CONFIG',
    message: expect.stringContaining('allkeys-lru'),
  });
  await (await opened({ allowEviction: true })).open(pay);
});

test('C87: what a failover forgot is fresh again, and its old owner is refused, with the lower token', async () => {
  const store = await opened();
  const inbox = await store.open(pay);
  const [old] = await inbox.claim([m1], LEASE_MS);
  await admin.command('FLUSHALL');
  expect(await inbox.complete([proof(old!)])).toEqual([false]);
  const [owner] = await inbox.claim([m1], LEASE_MS);
  expect(owner!.answer.answer).toBe('fresh');
  expect(owner!.token!).toBeGreaterThan(old!.token!);
  expect(await inbox.complete([proof(old!)])).toEqual([false]);
  expect(await inbox.complete([proof(owner!)])).toEqual([true]);
});

/** Fills the server and takes memory from it. */
async function evictSome(): Promise<void> {
  await admin.command('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
  for (let i = 0; i < 200; i++) await admin.command('SET', `filler-${i}`, 'x'.repeat(10_000));
  const used = /used_memory:(\d+)/.exec(String(await admin.command('INFO', 'memory')))![1];
  await admin.command('CONFIG', 'SET', 'maxmemory', String(Number(used) - 500_000));
  await admin.command('SET', 'filler', 'x');
}

test('C87: evictions are counted, and told once each time that they rise', async () => {
  const store = await opened({ allowEviction: true });
  await store.open(pay);
  const before = await store.evictedKeys();
  const warned = once(process, 'warning');
  await evictSome();
  await store.ping();
  const [warning] = (await warned) as [Error & { code: string }];
  expect(warning).toMatchObject({ code: 'NT_EVICTED', message: expect.stringMatching(/^Redis has evicted \d+ keys/) });

  let more = 0;
  const count = () => more++;
  process.on('warning', count);
  expect(await store.evictedKeys()).toBeGreaterThan(before);
  await new Promise(setImmediate);
  process.removeListener('warning', count);
  expect(more).toBe(0);
});

test('C87: an open store asks by itself whether keys were evicted', async () => {
  const store = await opened({ allowEviction: true, evictionCheckMs: 20 });
  await store.open(pay);
  const warned = once(process, 'warning');
  await evictSome();
  const [warning] = (await warned) as [Error & { code: string }];
  expect(warning).toMatchObject({ code: 'NT_EVICTED' });
});
