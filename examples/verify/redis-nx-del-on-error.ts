// The mark is taken back when the effect fails: but an error says that no answer came, not that nothing was done.
import { Pool } from 'pg';
import { createClient } from 'redis';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL! });
const redis = createClient({ url: process.env.REDIS_URL! });
redis.on('error', () => undefined);
const connected = redis.connect();

export const verify = {
  ...fixture,
  env: { DATABASE_URL: 'postgres', REDIS_URL: 'redis' },
  // With crashes it loses messages as well, as redis-set-nx-first.ts does.
  bounds: { crashes: 0 },
  expect: 'double',
  cost: 1,
};

export default async function onPayment(message: typeof fixture.message) {
  await connected;
  const mark = `done:${message.id}`;
  try {
    const first = await redis.set(mark, '1', { condition: 'NX', expiration: { type: 'EX', value: 86_400 } });
    if (first === null) return;
    await pool.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [message.amount, message.account]);
  } catch (error) {
    await redis.del(mark);
    throw error;
  }
}
