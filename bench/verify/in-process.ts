import { Pool } from 'pg';
import type { HandlerFactory } from '../../src/verify/index.ts';

/** The inbox in one transaction as it is written by hand. */
export const inboxFactory: HandlerFactory = env => {
  const pool = new Pool({ connectionString: env.DATABASE_URL });
  pool.on('error', () => undefined);
  pool.on('connect', client => client.on('error', () => undefined));
  return {
    close: () => pool.end(),
    async handle(message: { id: string; account: string; amount: number }) {
      const client = await pool.connect();
      try {
        await client.query('BEGIN');
        const mark = await client.query('INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING', [message.id]);
        if (mark.rowCount === 1) {
          await client.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [
            message.amount,
            message.account,
          ]);
        }
        await client.query('COMMIT');
      } catch (error) {
        await client.query('ROLLBACK').catch(() => undefined);
        throw error;
      } finally {
        client.release();
      }
    },
  };
};
