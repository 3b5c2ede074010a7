// The mark and the effect are one script: Redis runs all of it or nothing, and nobody else in between.
import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL!);

export const verify = {
  message: { id: 'm1', account: 'alice', amount: 5 },
  env: { REDIS_URL: 'redis' },
  compareRedis: true,
  expect: 'once',
};

const ONCE = `
  if redis.call('SET', KEYS[1], '1', 'NX', 'EX', 86400) then redis.call('INCRBY', KEYS[2], ARGV[1]) end
  return redis.call('GET', KEYS[2])`;

export default async function onPayment(message: typeof verify.message) {
  await redis.eval(ONCE, 2, `done:${message.id}`, `balance:${message.account}`, message.amount);
}
