// forEach does not wait for an async function: the transaction commits the mark first, and the items follow outside of it.
import { Pool } from 'pg';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  message: { id: 'm1', items: [{ sku: 'cup', count: 2 }] },
  schema: `
    CREATE TABLE stock (sku text PRIMARY KEY, count int NOT NULL);
    CREATE TABLE processed (id text PRIMARY KEY);`,
  seed: `INSERT INTO stock VALUES ('cup', 10)`,
  expect: 'lost',
  cost: 1,
};

export default async function onOrder(order: typeof verify.message) {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    const mark = await client.query('INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING', [order.id]);
    if (mark.rowCount === 1) {
      order.items.forEach(async ({ sku, count }) => {
        const { rows } = await client.query('SELECT count FROM stock WHERE sku = $1 FOR UPDATE', [sku]);
        if (rows[0].count < count) throw new Error(`not enough of ${sku}`);
        await client.query('UPDATE stock SET count = count - $1 WHERE sku = $2', [count, sku]);
      });
    }
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}
