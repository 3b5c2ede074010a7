// The mark is read before and written after the effect, in another store: what comes in between acts again.
import { Redis } from 'ioredis';
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });
const redis = new Redis(process.env.REDIS_URL!);

export const verify = { ...fixture, env: { DATABASE_URL: 'postgres', REDIS_URL: 'redis' }, expect: 'double', cost: 1 };

export default async function onPayment(message: typeof fixture.message) {
  if ((await redis.get(`done:${message.id}`)) !== null) return;
  await pool.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [message.amount, message.account]);
  await redis.set(`done:${message.id}`, '1', 'EX', 86_400);
}
