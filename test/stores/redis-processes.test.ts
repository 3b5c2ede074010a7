import { test } from 'vitest';
import { redisUrl } from '../support/redis.ts';
import { oneEffect } from './lease-copies.ts';
import { temporaryPath } from './local-support.ts';
import { freshPrefix } from './redis-clients.ts';

const PROCESSES = 5;
const COPIES = 20;

test(`C84: ${PROCESSES * COPIES} copies of one message at once in ${PROCESSES} processes with both clients: one effect, and all get its result`, async () => {
  const { path, remove } = temporaryPath();
  const prefix = freshPrefix();
  const targets = Array.from({ length: PROCESSES }, (_, i) => {
    return { redis: redisUrl(), prefix, client: i % 2 === 0 ? ('node-redis' as const) : ('ioredis' as const) };
  });
  await oneEffect(targets, COPIES, `${path}.effects`);
  remove();
});
