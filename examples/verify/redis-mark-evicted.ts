// Mark and effect are one script. Under memory pressure Redis evicts the mark, which has a TTL, and a copy counts again.
import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL!);

const ONCE = `if redis.call('SET', KEYS[1], '1', 'NX', 'EX', 86400) then redis.call('INCRBY', KEYS[2], ARGV[1]) end`;

export const verify = {
  message: { id: 'm1', account: 'alice', amount: 5 },
  env: { REDIS_URL: 'redis' },
  compareRedis: true,
  ignore: ['redis seen:*'],
  evicts: ['seen:*'],
  expect: 'double',
  cost: 2,
};

export default async function onPayment({ id, account, amount }: typeof verify.message) {
  await redis.eval(ONCE, 2, `seen:${id}`, `balance:${account}`, amount);
}
