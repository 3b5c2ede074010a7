// The effect itself is an INCR: each copy of the message counts.
import { createClient } from 'redis';

const redis = createClient({ url: process.env.REDIS_URL! });
redis.on('error', () => undefined);
const connected = redis.connect();

export const verify = {
  message: { id: 'm1', page: 'home' },
  env: { REDIS_URL: 'redis' },
  compareRedis: true,
  expect: 'double',
  cost: 1,
};

export default async function onView(message: typeof verify.message) {
  await connected;
  await redis.incr(`views:${message.page}`);
}
