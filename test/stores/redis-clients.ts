import { randomBytes } from 'node:crypto';
import { Cluster, Redis } from 'ioredis';
import { createClient, createCluster } from 'redis';
import {
  ioredis,
  nodeRedis,
  nodeRedisCluster,
  type RedisPort,
  type RedisStore,
  type RedisStoreOptions,
  redisStore,
} from '../../src/stores/redis/index.ts';

/** A client of the tests' own: connected, without a listener for errors, ended by `end`. */
export interface TestClient {
  readonly port: RedisPort;
  readonly listeners: () => number;
  command(...command: string[]): Promise<unknown>;
  end(): Promise<void>;
}

export interface ClientKind {
  readonly name: string;
  connect(url: string): Promise<TestClient>;
}

export const singleClients: readonly ClientKind[] = [
  {
    name: 'node-redis',
    connect: async url => {
      const client = createClient({ url, socket: { reconnectStrategy: () => 20 } });
      // `connect` retries for ever where nothing listens, and every try is an event; a test that wants this has no await.
      const connecting = client.connect().catch(() => undefined);
      await Promise.race([connecting, new Promise(resolve => client.once('error', resolve))]);
      return {
        port: nodeRedis(client),
        listeners: () => client.listenerCount('error'),
        command: (...command) => client.sendCommand(command),
        end: async () => client.destroy(),
      };
    },
  },
  {
    name: 'ioredis',
    connect: async url => {
      const client = new Redis(url, { retryStrategy: () => 20, maxRetriesPerRequest: null });
      return {
        port: ioredis(client),
        listeners: () => client.listenerCount('error'),
        command: (name, ...args) => client.call(name!, args),
        end: async () => client.disconnect(),
      };
    },
  },
];

export const clusterClients: readonly ClientKind[] = [
  {
    name: 'node-redis cluster',
    connect: async url => {
      const cluster = createCluster({ rootNodes: [{ url }] });
      await cluster.connect();
      return {
        port: nodeRedisCluster(cluster),
        listeners: () => cluster.listenerCount('error'),
        command: (...command) => cluster.sendCommand(undefined, false, command),
        end: async () => cluster.destroy(),
      };
    },
  },
  {
    name: 'ioredis cluster',
    connect: async url => {
      const { hostname, port } = new URL(url);
      const cluster = new Cluster([{ host: hostname, port: Number(port) }]);
      return {
        port: ioredis(cluster),
        listeners: () => cluster.listenerCount('error'),
        command: (name, ...args) => cluster.call(name!, args),
        end: async () => cluster.disconnect(),
      };
    },
  },
];

export function freshPrefix(): string {
  return `t-${randomBytes(6).toString('hex')}:`;
}

/** A store on a client of its own; `close` ends both. */
export async function openStore(
  kind: ClientKind,
  url: string,
  options: RedisStoreOptions = {},
): Promise<{ store: RedisStore; client: TestClient; close(): Promise<void> }> {
  const client = await kind.connect(url);
  const store = redisStore(client.port, options);
  return {
    store,
    client,
    close: async () => {
      await store.close();
      await client.end();
    },
  };
}
