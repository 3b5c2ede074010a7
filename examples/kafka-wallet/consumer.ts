import { Kafka, logLevel } from 'kafkajs';
import { createConsumer } from 'nevertwice';
import { kafkajs, kafkaSource } from 'nevertwice/kafka';
import { postgresStore } from 'nevertwice/postgres';
import { Pool } from 'pg';

const kafka = new Kafka({
  clientId: 'wallet',
  brokers: [process.env.KAFKA ?? '127.0.0.1:9092'],
  logLevel: logLevel.ERROR,
});
const pool = new Pool({
  connectionString: process.env.DATABASE_URL ?? 'postgres://postgres:postgres@127.0.0.1:5432/postgres',
  pipeline: true,
});

interface Payment {
  readonly customer_id: string;
  readonly amount_cents: number;
}

export default createConsumer({
  name: 'kafka-wallet',
  source: kafkaSource({ client: kafkajs(kafka), topics: ['payments'] }),
  store: postgresStore(pool),
  setup: async sql => {
    await sql`CREATE TABLE IF NOT EXISTS wallet (customer_id text PRIMARY KEY, balance_cents bigint NOT NULL)`;
  },
  handleBatch: async (messages, { tx }) => {
    const payments = messages.map(({ body }) => body as Payment);
    // One statement for all; in order of the customers, so that two lanes never wait for each other in a circle.
    await tx.query(
      `INSERT INTO wallet (customer_id, balance_cents)
SELECT id, sum(cents) FROM unnest($1::text[], $2::bigint[]) AS u(id, cents) GROUP BY id ORDER BY id
ON CONFLICT (customer_id) DO UPDATE SET balance_cents = wallet.balance_cents + excluded.balance_cents`,
      [payments.map(payment => payment.customer_id), payments.map(payment => payment.amount_cents)],
    );
  },
});
