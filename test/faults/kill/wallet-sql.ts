import type { Sql } from '../../../src/index.ts';
import type { Kind } from './plan.ts';

/** The body of a message: a credit in cents. */
export interface Credit {
  readonly wallet: string;
  readonly cents: number;
}

/** A credit of nothing is refused: it becomes a dead letter, while its neighbours go on. */
export function isRefused({ cents }: Credit): boolean {
  return cents === 0;
}

type Row = Credit & { readonly id: string };

// The ledger takes the same id any number of times: what is done twice shall be seen, not refused.
export async function setup(sql: Sql): Promise<void> {
  await sql`CREATE TABLE IF NOT EXISTS wallet (id text PRIMARY KEY, cents bigint NOT NULL)`;
  await sql`CREATE TABLE IF NOT EXISTS ledger (message_id text NOT NULL, wallet text NOT NULL, cents bigint NOT NULL)`;
}

export async function ledgerOne(sql: Sql, id: string, { wallet, cents }: Credit): Promise<void> {
  await sql`INSERT INTO ledger (message_id, wallet, cents) VALUES (${id}, ${wallet}, ${cents})`;
}

export async function walletOne(sql: Sql, { wallet, cents }: Credit): Promise<void> {
  await sql`INSERT INTO wallet (id, cents) VALUES (${wallet}, ${cents})
    ON CONFLICT (id) DO UPDATE SET cents = wallet.cents + excluded.cents`;
}

export async function ledgerAll(kind: Kind, sql: Sql, rows: readonly Row[]): Promise<void> {
  const json = JSON.stringify(rows);
  if (kind === 'postgres') {
    await sql`INSERT INTO ledger (message_id, wallet, cents)
      SELECT id, wallet, cents FROM json_to_recordset(${json}::json) AS r(id text, wallet text, cents bigint)`;
  } else {
    await sql`INSERT INTO ledger (message_id, wallet, cents)
      SELECT value->>'id', value->>'wallet', value->>'cents' FROM json_each(${json})`;
  }
}

export async function walletAll(kind: Kind, sql: Sql, rows: readonly Row[]): Promise<void> {
  const json = JSON.stringify(rows);
  if (kind === 'postgres') {
    await sql`INSERT INTO wallet (id, cents)
      SELECT wallet, sum(cents) FROM json_to_recordset(${json}::json) AS r(wallet text, cents bigint)
      GROUP BY wallet ORDER BY wallet
      ON CONFLICT (id) DO UPDATE SET cents = wallet.cents + excluded.cents`;
  } else {
    await sql`INSERT INTO wallet (id, cents)
      SELECT value->>'wallet', sum(value->>'cents') FROM json_each(${json}) WHERE true
      GROUP BY 1
      ON CONFLICT (id) DO UPDATE SET cents = wallet.cents + excluded.cents`;
  }
}
