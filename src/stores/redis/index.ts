import { NevertwiceError } from '../../errors.ts';
import { type RedisStoreOptions, redisSettings } from './options.ts';
import type { RedisPort } from './port.ts';
import { InRedis, type RedisStore } from './store.ts';

export { type IoredisClient, type IoredisClusterClient, ioredis } from './clients/ioredis.ts';
export {
  type NodeRedisClient,
  type NodeRedisClusterClient,
  nodeRedis,
  nodeRedisCluster,
} from './clients/node-redis.ts';
export type { RedisStoreOptions, WaitForReplicas } from './options.ts';
export type { Emitter, RedisPort } from './port.ts';
export type { RedisStore } from './store.ts';

/**
 * A lease store in Redis 6.2 or newer, Valkey, or a cluster of either, for effects that live outside SQL. At least once: an
 * effect can happen twice where its handler was done and `complete` was not recorded, and where the server forgot what
 * it had said (an eviction, a failover to a replica that was behind).
 *
 * Takes a client that is wrapped by name: `redisStore(ioredis(client))`. The client stays the caller's: it is never closed.
 * Until `close()` it gets a listener for `error` when it has none. Connects at the first use. Leases and retention are
 * decided by the server's clock. One batch of claims is one round trip.
 *
 * @throws NT_CONFIG for an option that is wrong; `open` also for a server that is too old or evicts keys. Every call
 * rejects with NT_STORE_DOWN when the server is not there, cannot write, or does not answer within `timeoutMs`.
 */
export function redisStore(client: RedisPort, options: RedisStoreOptions = {}): RedisStore {
  if (typeof client?.send !== 'function' || typeof client.info !== 'function') {
    throw new NevertwiceError(
      'NT_CONFIG',
      'redisStore takes a wrapped client: nodeRedis(client), nodeRedisCluster(cluster) or ioredis(client)',
    );
  }
  return new InRedis(client, redisSettings(options));
}
