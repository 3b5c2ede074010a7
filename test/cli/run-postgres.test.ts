import { freshDatabase } from '../support/postgres.ts';
import { walletSuite } from './run-wallet.ts';

walletSuite('PostgreSQL', async () => {
  const database = await freshDatabase();
  const pool = database.pool({ max: 1 });
  const ask = async (table: string, sql: string): Promise<readonly Record<string, unknown>[]> => {
    const { rows } = await pool.query('SELECT to_regclass($1) IS NOT NULL AS there', [table]);
    return rows[0].there === true ? (await pool.query(sql)).rows : [];
  };
  return {
    url: database.url,
    balances: async () =>
      Object.fromEntries(
        (await ask('wallet', 'SELECT customer_id, balance_cents::int FROM wallet')).map(row => Object.values(row)),
      ),
    done: async () => Number((await ask('nevertwice.inbox', 'SELECT count(*) AS n FROM nevertwice.inbox'))[0]?.n ?? 0),
    drop: () => database.drop(),
  };
});
