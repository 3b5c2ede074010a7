import { createConsumer, type Schema } from 'nevertwice';

interface Payment {
  customer_id: string;
  amount_cents: number;
}

// Any Standard Schema does: with zod it is z.object({ customer_id: z.string().min(1), amount_cents: z.int().positive() }).
const payment: Schema<Payment> = {
  '~standard': {
    version: 1,
    vendor: 'wallet',
    validate(value) {
      const { customer_id, amount_cents } = Object(value) as Partial<Payment>;
      if (typeof customer_id !== 'string' || customer_id === '') return invalid('customer_id', 'a customer is missing');
      if (!Number.isSafeInteger(amount_cents) || amount_cents! <= 0) {
        return invalid('amount_cents', 'not a positive whole number of cents');
      }
      return { value: { customer_id, amount_cents } };
    },
  },
};

const invalid = (field: string, message: string) => ({ issues: [{ message, path: [field] }] });

export default createConsumer({
  // Scopes deduplication: another name would be another consumer, and would credit every payment again.
  name: 'wallet',
  setup: async sql => {
    await sql`CREATE TABLE IF NOT EXISTS wallet (customer_id text PRIMARY KEY, balance_cents bigint NOT NULL)`;
  },
  handlers: {
    PaymentReceived: {
      body: payment,
      // Commits together with the record that this payment was seen, or not at all. The same SQL on both databases.
      handle: async ({ body }, { sql }) => {
        await sql`INSERT INTO wallet (customer_id, balance_cents) VALUES (${body.customer_id}, ${body.amount_cents})
          ON CONFLICT (customer_id) DO UPDATE SET balance_cents = wallet.balance_cents + excluded.balance_cents`;
      },
    },
  },
});

// What `nevertwice verify` delivers: npx nevertwice verify examples/wallet/consumer.ts
export const verify = {
  message: { id: 'p1', type: 'PaymentReceived', body: { customer_id: 'alice', amount_cents: 500 } },
  env: { DATABASE_URL: 'postgres' },
};
