import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { encodeKey } from '../../src/identity/encoding.ts';
import type { Claim, LeaseGrant, LeaseInbox } from '../../src/index.ts';
import { type RedisStoreOptions, redisStore } from '../../src/stores/redis/index.ts';
import { KILLS } from '../support/counts.ts';
import { redisUrl } from '../support/redis.ts';
import { until } from '../support/until.ts';
import { type ClientKind, freshPrefix, openStore, singleClients, type TestClient } from './redis-clients.ts';

const LEASE_MS = 60_000;
const pay = { name: 'pay', signature: 's/1' };
const m1 = encodeKey('m1');
const [nodeRedisKind, ioredisKind] = singleClients as [ClientKind, ClientKind];

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  vi.useRealTimers();
  await Promise.all(closing.splice(0).map(close => close()));
});

async function opened(kind: ClientKind, options: RedisStoreOptions = {}) {
  const { close, ...rest } = await openStore(kind, redisUrl(), { prefix: freshPrefix(), ...options });
  closing.push(close);
  return rest;
}

async function claimOne(inbox: LeaseInbox, claim: Claim = m1, leaseMs = LEASE_MS): Promise<LeaseGrant> {
  return (await inbox.claim([claim], leaseMs))[0]!;
}

const proof = (grant: LeaseGrant, claim: Claim = m1) => ({ claim, nonce: grant.nonce! });

/** Time to live of every key of a prefix, -1 for none. */
async function timesToLive(client: TestClient, prefix: string): Promise<ReadonlyMap<string, number>> {
  const found = new Map<string, number>();
  let cursor = '0';
  do {
    const [next, keys] = (await client.command('SCAN', cursor, 'MATCH', `${prefix}*`, 'COUNT', '1000')) as [
      string,
      string[],
    ];
    for (const key of keys) found.set(key, Number(await client.command('PTTL', key)));
    cursor = next;
  } while (cursor !== '0');
  return found;
}

describe('C83: no id without a time to live', () => {
  // What is not an id stays until somebody removes it: who has started, and what waits for a person.
  const idsOf = (found: ReadonlyMap<string, number>) => [...found].filter(([key]) => !/consumers$|\/letter/.test(key));

  test.for(singleClients)(
    'however often a worker is killed in mid-work, with $name',
    { timeout: 240_000 },
    async kind => {
      const prefix = freshPrefix();
      const program = fileURLToPath(new URL('redis-worker.ts', import.meta.url));
      const kills = Math.min(Math.ceil(KILLS / 4), 100);
      for (let i = 0; i < kills; i++) {
        const child = spawn(process.execPath, [program, kind.name, redisUrl(), prefix], {
          stdio: ['ignore', 'pipe', 'inherit'],
        });
        await once(child.stdout, 'data');
        await sleep(Math.random() * 60);
        const exited = once(child, 'exit');
        child.kill('SIGKILL');
        await exited;
      }
      const { client } = await opened(kind);
      const ids = idsOf(await timesToLive(client, prefix));
      expect(ids.length).toBeGreaterThan(100);
      expect(ids.filter(([, ttl]) => ttl <= 0)).toEqual([]);
    },
  );

  test('a key outlives its lease, and a done one lives for the retention from its completion', async () => {
    const prefix = freshPrefix();
    const { store, client } = await opened(ioredisKind, { prefix, retentionMs: 10_000 });
    const inbox = await store.open(pay);
    const ttl = async () => [...(await timesToLive(client, prefix))].find(([key]) => key.endsWith(m1.hex))![1];
    const owner = await claimOne(inbox, m1, 30_000);
    expect(await ttl()).toBeGreaterThan(80_000);
    await inbox.renew([proof(owner)], 120_000);
    expect(await ttl()).toBeGreaterThan(170_000);
    await inbox.complete([proof(owner)]);
    expect(await ttl()).toBeLessThanOrEqual(10_000);
    expect(await ttl()).toBeGreaterThan(5_000);
  });

  test('ids are kept two days longer than the source can deliver again, and nine days when nobody says', async () => {
    const hours = async (redeliveryHorizonMs: number | undefined) => {
      const prefix = freshPrefix();
      const { store, client } = await opened(ioredisKind, { prefix });
      const inbox = await store.open({ ...pay, redeliveryHorizonMs });
      await inbox.complete([proof(await claimOne(inbox))]);
      const ttl = [...(await timesToLive(client, prefix))].find(([key]) => key.endsWith(m1.hex))![1];
      return [Math.round(ttl / 3_600_000), Math.round(inbox.retentionMs / 3_600_000)];
    };
    expect([await hours(undefined), await hours(4 * 86_400_000)]).toEqual([
      [216, 216],
      [144, 144],
    ]);
  });

  test('C91: after the retention the id is new again', async () => {
    const { store } = await opened(ioredisKind, { retentionMs: 100 });
    const inbox = await store.open(pay);
    await inbox.complete([proof(await claimOne(inbox))]);
    expect((await claimOne(inbox)).answer.answer).toBe('duplicate');
    await until('the id is forgotten', async () => (await inbox.inspect([m1]))[0]!.state === 'absent');
    expect((await claimOne(inbox)).answer.answer).toBe('fresh');
  });
});

describe('C84', () => {
  test('of 50 claims at once over both clients, one wins', async () => {
    const prefix = freshPrefix();
    const stores = await Promise.all(singleClients.map(kind => opened(kind, { prefix })));
    const inboxes = await Promise.all(stores.map(({ store }) => store.open(pay)));
    const grants = await Promise.all(Array.from({ length: 50 }, (_, i) => claimOne(inboxes[i % 2]!)));
    const answers = grants.map(grant => grant.answer.answer);
    expect(answers.filter(answer => answer === 'fresh')).toHaveLength(1);
    expect(answers.filter(answer => answer === 'busy')).toHaveLength(49);
  });

  test.for(
    singleClients.flatMap(kind => [
      { kind, what: 'of another type', name: kind.name, foreign: (key: string) => ['LPUSH', key, 'not ours'] },
      { kind, what: 'that is not ours', name: kind.name, foreign: (key: string) => ['SET', key, 'not ours'] },
    ]),
  )('a value $what is a rejection, never an answer, with $name', async ({ kind, foreign }) => {
    const prefix = freshPrefix();
    const { store, client } = await opened(kind, { prefix });
    const inbox = await store.open(pay);
    await claimOne(inbox, encodeKey('m2'));
    const [key] = [...(await timesToLive(client, prefix)).keys()].filter(name => name.endsWith(encodeKey('m2').hex));
    await client.command(...foreign(key!.replace(encodeKey('m2').hex, m1.hex)));
    const claimed = inbox.claim([encodeKey('m3'), m1], LEASE_MS);
    await expect(claimed).rejects.toMatchObject({ code: 'NT_CONFIG', message: expect.stringContaining('WRONGTYPE') });
    await claimed.catch(error => expect(JSON.stringify(error.cause)).not.toContain(m1.hex));
    await expect(inbox.inspect([m1])).rejects.toMatchObject({ code: 'NT_CONFIG' });
  });
});

test.for(singleClients)('C85: an old owner can do nothing to the new one, with $name', async kind => {
  const prefix = freshPrefix();
  const [a, b, c] = await Promise.all([kind, kind, kind].map(async one => (await opened(one, { prefix })).store));
  const [inboxA, inboxB, inboxC] = [await a!.open(pay), await b!.open(pay), await c!.open(pay)];
  const old = await claimOne(inboxA, m1, 100);
  const owner = await until('B takes over', async () => {
    const grant = await claimOne(inboxB);
    return grant.answer.answer === 'fresh' && grant;
  });
  expect(owner.token!).toBeGreaterThan(old.token!);
  expect(await inboxA.renew([proof(old)], LEASE_MS)).toEqual([false]);
  expect(await inboxA.complete([{ ...proof(old), result: 'stale' }])).toEqual([false]);
  expect(await inboxA.release([proof(old)])).toEqual([false]);
  expect(a!.staleCalls).toBe(3);
  expect((await claimOne(inboxC)).answer.answer).toBe('busy');
  expect(await inboxB.complete([{ ...proof(owner), result: 'mine' }])).toEqual([true]);
  expect((await claimOne(inboxC)).answer).toMatchObject({ answer: 'duplicate', result: 'mine' });
});

test('C92: the next token is above the last one, also when the clock of the server was set back', async () => {
  const prefix = freshPrefix();
  const { store, client } = await opened(ioredisKind, { prefix });
  const inbox = await store.open(pay);
  const owner = await claimOne(inbox);
  const [key] = [...(await timesToLive(client, prefix)).keys()].filter(name => name.endsWith(m1.hex));
  const ahead = owner.token! + 3_600_000_000n;
  const value = String(await client.command('GET', key!));
  expect(value).toContain(String(owner.token));
  await client.command('SET', key!, value.replace(String(owner.token), String(ahead)), 'KEEPTTL');
  await inbox.release([proof(owner)]);
  expect((await claimOne(inbox)).token).toBe(ahead + 1n);
});

test.for([180_000, -180_000])('C92: a worker whose clock is %i ms off takes nothing over', async offMs => {
  const prefix = freshPrefix();
  const [a, b] = [await opened(nodeRedisKind, { prefix }), await opened(ioredisKind, { prefix })];
  const owner = await claimOne(await a.store.open(pay));
  const before = Date.now();
  vi.useFakeTimers({ toFake: ['Date'], now: before + offMs });
  const inbox = await b.store.open(pay);
  const { answer } = await claimOne(inbox);
  expect(answer.answer).toBe('busy');
  const ends = answer.answer === 'busy' ? +answer.until! : 0;
  expect(ends).toBeGreaterThan(before + LEASE_MS / 2);
  expect(ends).toBeLessThan(before + LEASE_MS * 2);
  // Leases and completions that the wrong clock asks for are of the server's time too.
  const other = await claimOne(inbox, encodeKey('m2'));
  expect(Math.abs(Number(other.token! / 1000n) - before)).toBeLessThan(30_000);
  await inbox.complete([proof(other, encodeKey('m2'))]);
  const [done] = await inbox.inspect([encodeKey('m2')]);
  expect(Math.abs((done!.state === 'done' ? +done!.at : 0) - before)).toBeLessThan(30_000);
  vi.setSystemTime(before);
  expect((await claimOne(inbox)).answer.answer).toBe('busy');
  expect(await (await a.store.open(pay)).complete([proof(owner)])).toEqual([true]);
});

test.for(singleClients)(
  'a call that is sent again by its client is answered as the first time, with $name',
  async kind => {
    const { store, client } = await opened(kind);
    const sent: (readonly string[])[] = [];
    const { send } = client.port;
    client.port.send = (key, command, signal) => {
      sent.push(command);
      return send(key, command, signal);
    };
    const inbox = await store.open(pay);
    const owner = await claimOne(inbox);
    const again = await client.command(...sent.at(-1)!);
    expect(again).toEqual([expect.any(String), [0, 'fresh', String(owner.token)]]);
    expect(await inbox.complete([{ ...proof(owner), result: 1 }])).toEqual([true]);
    expect(await client.command(...sent.at(-1)!)).toEqual([1]);
    expect((await store.stats())[0]!.processed).toBe(1);
  },
);

describe.for(singleClients)('a claim whose answer was lost on the way, with $name', kind => {
  async function loses() {
    const prefix = freshPrefix();
    const [{ store, client }, other] = [await opened(kind, { prefix }), await opened(kind, { prefix })];
    const inbox = await store.open(pay);
    const { send } = client.port;
    client.port.send = async (...call) => {
      await send(...call);
      throw Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
    };
    await expect(claimOne(inbox)).rejects.toMatchObject({
      code: 'NT_STORE_DOWN',
      message: expect.stringContaining('ECONNRESET'),
    });
    client.port.send = send;
    const stranger = await other.store.open(pay);
    expect((await claimOne(stranger)).answer.answer).toBe('busy');
    return { store, inbox, stranger };
  }

  test('is the same claim when it is made again', async () => {
    const { store, inbox } = await loses();
    const [before] = await inbox.inspect([m1]);
    const owner = await claimOne(inbox);
    expect(owner).toMatchObject({ answer: { answer: 'fresh' }, token: (before as { token: bigint }).token });
    expect((await claimOne(inbox)).answer.answer).toBe('busy');
    expect(await inbox.complete([proof(owner)])).toEqual([true]);
    expect(store.staleCalls).toBe(0);
  });

  test('is the same claim when two lanes had asked for copies of it', async () => {
    const { store, client } = await opened(kind);
    const inbox = await store.open(pay);
    const { send } = client.port;
    client.port.send = async (...call) => {
      await send(...call);
      throw Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
    };
    const lost = await Promise.allSettled([claimOne(inbox), claimOne(inbox)]);
    expect(lost.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    client.port.send = send;
    const owner = await claimOne(inbox);
    expect(owner.answer.answer).toBe('fresh');
    expect(await inbox.complete([proof(owner)])).toEqual([true]);
    expect(store.staleCalls).toBe(0);
  });

  test('is given back with the next claim of another id', async () => {
    const { store, inbox, stranger } = await loses();
    await claimOne(inbox, encodeKey('m2'));
    await until('it is free', async () => (await claimOne(stranger)).answer.answer === 'fresh');
    expect(store.staleCalls).toBe(0);
  });
});

test.for(singleClients)('a release that failed is made up for before the next claim, with $name', async kind => {
  const { store, client } = await opened(kind);
  const inbox = await store.open(pay);
  const owner = await claimOne(inbox);
  const { send } = client.port;
  client.port.send = async () => {
    throw Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
  };
  await expect(inbox.release([proof(owner)])).rejects.toMatchObject({ code: 'NT_STORE_DOWN' });
  await expect(claimOne(inbox, encodeKey('m2'))).rejects.toMatchObject({ code: 'NT_STORE_DOWN' });
  client.port.send = send;
  const next = await claimOne(inbox);
  expect(next.answer.answer).toBe('fresh');
  // The one that failed is not said again under the new owner.
  await claimOne(inbox, encodeKey('m3'));
  expect(await inbox.complete([proof(next)])).toEqual([true]);
  expect(store.staleCalls).toBe(0);
});

describe('results', () => {
  test.for(singleClients)('come back as JSON has them, with $name', async kind => {
    const { store } = await opened(kind);
    const inbox = await store.open(pay);
    const results = [null, 0, '', false, 'é\u0000\ud83d\ude00', ' a  c1 2\n d3 ', { charge: ['ch_1', 1.5] }];
    const claims = results.map((_, i) => encodeKey(`m${i}`));
    const grants = await inbox.claim(claims, LEASE_MS);
    await inbox.complete(grants.map((grant, i) => ({ ...proof(grant, claims[i]), result: results[i] })));
    const again = await inbox.claim(claims, LEASE_MS);
    expect(again.map(({ answer }) => (answer as { result: unknown }).result)).toEqual(results);
  });

  test('that have no JSON are refused by name, before anything of the call is recorded', async () => {
    const { store } = await opened(ioredisKind);
    const inbox = await store.open(pay);
    const claims = [m1, encodeKey('m2')];
    const grants = await inbox.claim(claims, LEASE_MS);
    for (const [result, name] of [
      [1n, 'bigint'],
      [() => 1, 'function'],
      [{ n: 1n }, 'object'],
    ] as const) {
      const call = inbox.complete([proof(grants[0]!), { ...proof(grants[1]!, claims[1]), result }]);
      await expect(call).rejects.toMatchObject({ code: 'NT_CONFIG', message: expect.stringContaining(name) });
    }
    expect((await inbox.inspect(claims)).map(({ state }) => state)).toEqual(['claimed', 'claimed']);
  });
});

describe('dead letters', () => {
  const letter = {
    messageId: 'm1',
    dedupe: '01',
    reason: 'the amount is negative',
    kind: 'rejected',
    attempts: 1,
    lane: 'payments/0',
    position: undefined,
    type: 'payment',
    key: 'account 1\n',
    time: new Date(1_700_000_000_000),
    headers: [['message-id', 'm1']] as const,
    payload: Uint8Array.from({ length: 256 }, (_, i) => i),
  };

  test.for(singleClients)('are kept as they were, oldest first, without a time to live, with $name', async kind => {
    const prefix = freshPrefix();
    const { store, client } = await opened(kind, { prefix });
    const inbox = await store.open(pay);
    const bare = { ...letter, messageId: undefined, dedupe: '02', key: undefined, time: undefined, type: undefined };
    await inbox.deadLetter([letter, bare]);
    await inbox.deadLetter([{ ...letter, attempts: 2 }]);
    const kept = await store.deadLetters('pay');
    expect(kept.map(one => ({ ...one, payload: Uint8Array.from(one.payload) }))).toMatchObject([
      { ...letter, attempts: 2 },
      bare,
    ]);
    expect([...(await inbox.blockedKeys(['account 1\n', 'account 1']))]).toEqual(['account 1\n']);
    const ttls = [...(await timesToLive(client, prefix))].filter(([key]) => key.endsWith('/letters'));
    expect(ttls.map(([, ttl]) => ttl)).toEqual([-1]);
  });

  test('a copy with another key sets the first key free', async () => {
    const { store } = await opened(ioredisKind);
    const inbox = await store.open(pay);
    await inbox.deadLetter([letter, { ...letter, dedupe: '02', key: 'b' }]);
    await inbox.deadLetter([{ ...letter, key: 'b' }]);
    await inbox.deadLetter([{ ...letter, dedupe: '02', key: undefined }]);
    expect([...(await inbox.blockedKeys([letter.key, 'b']))]).toEqual(['b']);
  });
});

test('names that look like another consumer or its keys do not meet', async () => {
  const { store } = await opened(ioredisKind);
  const names = ['a', 'a.0', 'a}:01', '{a.0}', 'a/letters', 'é'];
  for (const name of names) {
    const inbox = await store.open({ name, signature: 's/1' });
    expect((await claimOne(inbox)).answer.answer).toBe('fresh');
    await inbox.deadLetter([]);
  }
  expect((await store.stats()).map(row => row.consumer).sort()).toEqual([...names].sort());
});

describe('options', () => {
  const port = { client: 'none', cluster: false, send: async () => null, info: async () => [] };
  const wrapped = { ...port, reconnect: () => undefined, watch: () => () => undefined };

  test.for([
    { prefix: '' },
    { prefix: 'a{b}' },
    { retentionMs: 0 },
    { retentionMs: Number.NaN },
    { timeoutMs: 0.5 },
    { slots: 0 },
    { slots: 2_000 },
    { waitForReplicas: { replicas: 0, timeoutMs: 10 } },
    { waitForReplicas: { replicas: 1, timeoutMs: 0 } },
  ])('%o is refused', options => {
    expect(() => redisStore(wrapped, options)).toThrow(expect.objectContaining({ code: 'NT_CONFIG' }));
  });

  test('a client that is not wrapped is refused with the ways to wrap it', () => {
    expect(() => redisStore({ call: () => undefined } as never)).toThrow(/nodeRedis\(client\)/);
  });

  test('a store that was closed is closed, and the client is not', async () => {
    const { store, client } = await opened(ioredisKind);
    const inbox = await store.open(pay);
    await store.close();
    await expect(inbox.claim([m1], LEASE_MS)).rejects.toMatchObject({ code: 'NT_CONFIG' });
    await expect(store.ping()).rejects.toMatchObject({ code: 'NT_CONFIG' });
    expect(await client.command('PING')).toBe('PONG');
  });
});
