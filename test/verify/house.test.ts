import { expect, inject, test } from 'vitest';
import { createInbox } from '../../src/index.ts';
import { postgresJs, postgresStore } from '../../src/stores/postgres/index.ts';
import { type BrokerName, type Report, render, type VerifyOptions, verify } from '../../src/verify/index.ts';
import { type Client, payment, payments, wallet } from './house-support.ts';

const LONG = process.env.NEVERTWICE_KILLS !== undefined;
const library = { createInbox, postgresJs, postgresStore };

async function judged(client: Client, more: Partial<VerifyOptions>): Promise<Report> {
  return verify({
    ...payment,
    handler: wallet(library, client),
    postgres: inject('services').NEVERTWICE_TEST_POSTGRES!,
    budgetMs: LONG ? 600_000 : 100_000,
    ...more,
  });
}

const timeout = LONG ? 700_000 : 120_000;

// Each client has its own ways of losing a connection, of a COMMIT without an answer, and of giving a session back.
test.each<[Client, number]>([
  ['pg', 2],
  ['pg, pipelined', 2],
  ['postgres.js', 1],
])('the inbox on %s takes effect once, with at most %i troubles', { timeout }, async (client, total) => {
  const report = await judged(client, { bounds: { total: LONG ? 3 : total } });
  expect(report.verdict, told(report)).toBe('once');
  expect(report.executions).toBeGreaterThan(15);
});

// What comes again, when, and to whom is another thing with each broker.
test.each<BrokerName>(['kafka', 'sqs', 'sqs-fifo', 'nats', 'redis-streams'])(
  'two messages of one account on %s take effect once',
  { timeout },
  async broker => {
    const report = await judged('pg', { broker, messages: payments, bounds: { total: LONG ? 2 : 1 } });
    expect(report.verdict, told(report)).toBe('once');
  },
);

test.each<Client>(['pg', 'pg, pipelined', 'postgres.js'])(
  'a batch on %s takes effect once, also when the partition goes to another consumer in the middle of it',
  { timeout },
  async client => {
    const batch = { broker: 'kafka', batch: true, messages: payments } as const;
    const report = await judged(client, { ...batch, bounds: { total: LONG ? 2 : 1 } });
    expect(report.verdict, told(report)).toBe('once');
  },
);

function told(report: Report): string {
  return render(report, 'terminal', { width: 120, colour: false });
}
