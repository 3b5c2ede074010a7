// A lease keeps others away for as long as it lasts; nothing stops the first one once it has run out.
import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });
const redis = new Redis(process.env.REDIS_URL!);

export const verify = {
  ...fixture,
  env: { DATABASE_URL: 'postgres', REDIS_URL: 'redis' },
  leases: ['lock:*'],
  expect: 'double',
  cost: 1,
};

const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

export default async function onPayment(message: typeof fixture.message) {
  const lock = `lock:${message.id}`;
  const token = randomUUID();
  if ((await redis.set(lock, token, 'PX', 30_000, 'NX')) === null) throw new Error('another consumer is at it');
  try {
    const seen = await pool.query('SELECT 1 FROM processed WHERE id = $1', [message.id]);
    if (seen.rowCount !== 0) return;
    // Both in one statement, so that a crash cannot part them.
    await pool.query(
      `WITH mark AS (INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING)
       UPDATE wallet SET balance = balance + $2 WHERE id = $3`,
      [message.id, message.amount, message.account],
    );
  } finally {
    await redis.eval(RELEASE, 1, lock, token);
  }
}
