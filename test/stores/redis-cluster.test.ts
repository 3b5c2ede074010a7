import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { leaseStoreSuite } from '../../src/conformance/index.ts';
import { encodeKey } from '../../src/identity/encoding.ts';
import { type RedisServer, startRedis } from '../support/redis.ts';
import { until } from '../support/until.ts';
import { clusterClients, freshPrefix, openStore, singleClients } from './redis-clients.ts';

const LEASE_MS = 60_000;
let nodes: readonly RedisServer[];

beforeAll(async () => {
  const settings = { 'cluster-enabled': 'yes', 'cluster-node-timeout': 2_000 };
  nodes = await Promise.all([startRedis({ settings }), startRedis({ settings })]);
  const admins = await Promise.all(nodes.map(node => singleClients[1]!.connect(node.url)));
  await admins[0]!.command('cluster', 'addslotsrange', '0', '8191');
  await admins[1]!.command('cluster', 'addslotsrange', '8192', '16383');
  await admins[0]!.command('cluster', 'meet', '127.0.0.1', String(nodes[1]!.port));
  for (const admin of admins) {
    await until('the cluster is whole', async () => {
      const info = String(await admin.command('cluster', 'info'));
      return info.includes('cluster_state:ok') && info.includes('cluster_known_nodes:2');
    });
    await admin.end();
  }
});
afterAll(async () => {
  await Promise.all((nodes ?? []).map(node => node.stop()));
});

for (const kind of clusterClients) {
  leaseStoreSuite({
    test,
    name: kind.name,
    create: async () => {
      const { store, close } = await openStore(kind, nodes[0]!.url, { prefix: freshPrefix() });
      return { store, close };
    },
  });

  describe(kind.name, () => {
    test('a batch lies on both servers, one hash slot a call, and is answered in order', async () => {
      const { store, client, close } = await openStore(kind, nodes[0]!.url, { prefix: freshPrefix() });
      const sent: string[][] = [];
      const { send } = client.port;
      client.port.send = (key, command, signal) => {
        if (command[0] === 'EVALSHA') sent.push(command.slice(3, 3 + Number(command[2])));
        return send(key, command, signal);
      };
      const inbox = await store.open({ name: 'pay', signature: 's/1' });
      sent.length = 0;
      const claims = Array.from({ length: 200 }, () => encodeKey(randomUUID()));
      const grants = await inbox.claim(claims, LEASE_MS);
      expect(grants.every(grant => grant.answer.answer === 'fresh')).toBe(true);
      expect(sent.length).toBe(16);
      const slots = await Promise.all(sent.map(keys => hashSlots(keys)));
      expect(slots.map(inOneCall => inOneCall.size)).toEqual(new Array(16).fill(1));
      const servers = new Set(slots.map(([slot]) => slot! < 8192));
      expect(servers.size).toBe(2);

      // Complete every other one: an answer in the wrong place would show.
      const proofs = claims.map((claim, i) => ({ claim, nonce: i % 2 === 0 ? grants[i]!.nonce! : 'not-mine' }));
      expect(await inbox.complete(proofs)).toEqual(claims.map((_, i) => i % 2 === 0));
      const states = await inbox.inspect(claims);
      expect(states.map(({ state }) => state)).toEqual(claims.map((_, i) => (i % 2 === 0 ? 'done' : 'claimed')));
      expect((await store.stats())[0]).toMatchObject({ consumer: 'pay', processed: 100 });
      await close();
    });

    test('waiting for replicas asks the server that has the key', async () => {
      const { store, close } = await openStore(kind, nodes[0]!.url, {
        prefix: freshPrefix(),
        waitForReplicas: { replicas: 1, timeoutMs: 20 },
      });
      const inbox = await store.open({ name: 'pay', signature: 's/1' });
      await expect(inbox.claim([encodeKey(randomUUID())], LEASE_MS)).rejects.toMatchObject({
        code: 'NT_STORE_DOWN',
        message: '0 of 1 replicas had the write within 20 ms',
      });
      await close();
    });

    test('the number of slots is kept with the consumer', async () => {
      const prefix = freshPrefix();
      const first = await openStore(kind, nodes[0]!.url, { prefix, slots: 4 });
      await first.store.open({ name: 'pay', signature: 's/1' });
      const other = await openStore(kind, nodes[0]!.url, { prefix, slots: 5 });
      await expect(other.store.open({ name: 'pay', signature: 's/1' })).rejects.toMatchObject({ code: 'NT_CONFIG' });
      const silent = await openStore(kind, nodes[0]!.url, { prefix });
      const claim = encodeKey('m1');
      await (await first.store.open({ name: 'pay', signature: 's/1' })).claim([claim], LEASE_MS);
      const inbox = await silent.store.open({ name: 'pay', signature: 's/1' });
      expect((await inbox.claim([claim], LEASE_MS))[0]!.answer.answer).toBe('busy');
      await Promise.all([first.close(), other.close(), silent.close()]);
    });
  });
}

test.for(singleClients)('$name on a server of a cluster is refused with the way out', async kind => {
  const opened = await Promise.all(nodes.map(node => openStore(kind, node.url, { prefix: 'one-slot-only:' })));
  // One of the two has the key and the other one has not.
  const outcomes = await Promise.allSettled(opened.map(({ store }) => store.positions.load('pay', 'a')));
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  expect(outcomes.find(one => one.status === 'rejected')?.reason).toMatchObject({
    code: 'NT_CONFIG',
    message: expect.stringContaining('nodeRedisCluster'),
  });
  await Promise.all(opened.map(one => one.close()));
});

async function hashSlots(keys: readonly string[]): Promise<ReadonlySet<number>> {
  const admin = await singleClients[1]!.connect(nodes[0]!.url);
  const slots = await Promise.all(keys.map(async key => Number(await admin.command('cluster', 'keyslot', key))));
  await admin.end();
  return new Set(slots);
}
