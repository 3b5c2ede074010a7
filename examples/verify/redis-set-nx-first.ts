// The mark is set before the effect: whoever dies in between has marked what nobody will do.
import { Redis } from 'ioredis';
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });
const redis = new Redis(process.env.REDIS_URL!);

export const verify = { ...fixture, env: { DATABASE_URL: 'postgres', REDIS_URL: 'redis' }, expect: 'lost', cost: 1 };

export default async function onPayment(message: typeof fixture.message) {
  const first = await redis.set(`done:${message.id}`, '1', 'EX', 86_400, 'NX');
  if (first === null) return;
  await pool.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [message.amount, message.account]);
}
