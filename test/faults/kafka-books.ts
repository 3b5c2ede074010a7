import type { Pool } from 'pg';
import { expect } from 'vitest';
import type { TestTopic } from '../support/kafka-topics.ts';
import { SEED, seeded } from '../support/random.ts';

export const PARTITIONS = 4;
const ACCOUNTS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];

export const TABLES = `CREATE TABLE wallet (account text PRIMARY KEY, balance integer NOT NULL);
CREATE TABLE ledger (message_id text NOT NULL);
INSERT INTO wallet SELECT unnest(string_to_array('${ACCOUNTS.join(',')}', ',')), 0`;

/** Sends numbered payments and keeps the books: what the wallets must hold once everything was handled once. */
export class Producer {
  readonly #topic: TestTopic;
  readonly #random: ReturnType<typeof seeded>;
  readonly owed = new Map(ACCOUNTS.map(account => [account, 0]));
  readonly #sent: { id: string; account: string; amount: number }[] = [];

  constructor(topic: TestTopic, seed = SEED) {
    this.#topic = topic;
    this.#random = seeded(seed);
  }

  get messages(): number {
    return this.#sent.length;
  }

  /**
   * `count` records, a tenth of them copies of earlier ones at new offsets, as from a producer that sends again. Now and then
   * all of them once more, as from an outbox relay that died between its publish and its delete.
   */
  async send(count: number): Promise<void> {
    const records = Array.from({ length: count }, () => {
      const copy = this.#sent.length > 0 && this.#random.chance(0.1);
      const payment = copy ? this.#random.pick(this.#sent) : this.#fresh();
      return {
        key: payment.account,
        value: JSON.stringify({ account: payment.account, amount: payment.amount }),
        headers: { 'message-id': payment.id },
      };
    });
    await this.#topic.send(records);
    if (this.#random.chance(0.2)) await this.#topic.send(records);
  }

  #fresh() {
    const payment = {
      id: `m${this.#sent.length}`,
      account: this.#random.pick(ACCOUNTS),
      amount: 1 + this.#random.below(500),
    };
    this.#sent.push(payment);
    this.owed.set(payment.account, this.owed.get(payment.account)! + payment.amount);
    return payment;
  }
}

export async function settledUp(pool: Pool, producer: Producer): Promise<void> {
  const { rows } = await pool.query('SELECT account, balance FROM wallet ORDER BY account');
  expect(new Map(rows.map(row => [row.account, row.balance]))).toEqual(producer.owed);
  const { rows: ledger } = await pool.query(
    'SELECT count(*)::int AS n, count(DISTINCT message_id)::int AS ids FROM ledger',
  );
  expect(ledger[0]).toEqual({ n: producer.messages, ids: producer.messages });
}

export const handled = (pool: Pool, count: number) => async () => {
  const { rows } = await pool.query('SELECT count(*)::int AS n FROM ledger');
  return rows[0].n >= count;
};

export async function pay({ id, body }: { id: string; body: unknown }, { sql }: { sql: any }): Promise<void> {
  const { account, amount } = body as { account: string; amount: number };
  await sql`UPDATE wallet SET balance = balance + ${amount} WHERE account = ${account}`;
  await sql`INSERT INTO ledger (message_id) VALUES (${id})`;
}

/** Members that notice each other soon. */
export const FAST = { sessionTimeoutMs: 6_000, heartbeatMs: 300 };
