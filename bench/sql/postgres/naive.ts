import type { PoolClient } from 'pg';
import { loadOf, type PaymentMessage, paymentOf } from '../load.ts';
import type { Shape } from '../shape.ts';
import { type PostgresPlace, walletContestant } from './place.ts';
import type { Sizes } from './sizes.ts';

const CONNECTIONS = 16;

/** The consumer that people write first: a transaction a message, 16 at a time. It is right, and has no order. */
export function naive(sizes: Sizes): Shape<PostgresPlace> {
  const load = loadOf(sizes.naive);
  return {
    rows: [{ id: 'sql.pg.naive', what: 'naive: a transaction per message, 16 connections' }],
    contestants: place => [
      walletContestant(place, {
        id: 'sql.pg.naive',
        load,
        async open(schema) {
          const pool = place.pool({ max: CONNECTIONS });
          const worker = async (client: PoolClient, messages: Iterator<PaymentMessage>) => {
            for (let next = messages.next(); next.done !== true; next = messages.next()) {
              await handle(client, schema, next.value);
            }
          };
          return () => async () => {
            const clients = await Promise.all(Array.from({ length: CONNECTIONS }, () => pool.connect()));
            const messages = load.lanes.flat().values();
            await Promise.all(clients.map(client => worker(client, messages)));
            for (const client of clients) client.release();
          };
        },
      }),
    ],
  };
}

async function handle(client: PoolClient, schema: string, message: PaymentMessage): Promise<void> {
  await client.query('begin');
  const { rowCount } = await client.query(
    `insert into ${schema}.processed (consumer, message_id) values ($1, $2) on conflict do nothing`,
    ['wallet', message.id],
  );
  if (rowCount === 1) {
    const { wallet, amount } = paymentOf(message);
    await client.query(`update ${schema}.wallet set balance = balance + $2 where id = $1`, [wallet, amount]);
  }
  await client.query('commit');
}
