import type { LeaseStore } from '../../src/index.ts';
import type { RedisPort } from '../../src/stores/redis/index.ts';

/** A lease store, and how one process gets to it; as JSON for its arguments. */
export type LeaseTarget = { readonly local: string } | RedisTarget;

interface RedisTarget {
  readonly redis: string;
  readonly prefix: string;
  readonly client: 'node-redis' | 'ioredis';
}

/** Loads only what this target needs: there are many of these processes, and they live for moments. */
export async function openTarget(target: LeaseTarget): Promise<{ readonly store: LeaseStore; close(): Promise<void> }> {
  if ('local' in target) {
    const { localStore } = await import('../../src/stores/local/index.ts');
    const store = localStore(target.local);
    return { store, close: () => store.close() };
  }
  const { redisStore } = await import('../../src/stores/redis/index.ts');
  const { port, end } = await connect(target);
  const store = redisStore(port, { prefix: target.prefix });
  return {
    store,
    close: async () => {
      await store.close();
      end();
    },
  };
}

async function connect({ redis: url, client: kind }: RedisTarget): Promise<{ readonly port: RedisPort; end(): void }> {
  const { ioredis, nodeRedis } = await import('../../src/stores/redis/index.ts');
  if (kind === 'ioredis') {
    const { Redis } = await import('ioredis');
    const client = new Redis(url);
    return { port: ioredis(client), end: () => client.disconnect() };
  }
  const { createClient } = await import('redis');
  const client = createClient({ url });
  await client.connect();
  return { port: nodeRedis(client), end: () => client.destroy() };
}
