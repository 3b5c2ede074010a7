import { inject } from 'vitest';

export { type RedisServer, startRedis } from '../../src/verify/servers/redis-server.ts';

/** URL of the run's shared server. Test files run side by side on it: each store needs a prefix of its own. */
export function redisUrl(): string {
  const url = inject('services').NEVERTWICE_TEST_REDIS;
  if (url === undefined) throw new Error('no Redis: run this file through vitest with its config');
  return url;
}
