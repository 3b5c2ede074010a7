import { Pool, type PoolClient } from 'pg';
import { expect, test } from 'vitest';
import { createInbox } from '../../src/index.ts';
import { type Clock, systemClock } from '../../src/ports/clock.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { type HandlerFactory, type Report, render, type VerifyOptions, verify } from '../../src/verify/index.ts';

const LONG = process.env.NEVERTWICE_KILLS !== undefined;

/** Waits that the library chooses itself show nothing but themselves. */
const hasty: Clock = {
  ...systemClock,
  sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 1), signal),
  random: () => 0.5,
};

const payment = {
  message: { id: 'm1', account: 'alice', amount: 5 },
  schema: 'CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL)',
  seed: `INSERT INTO wallet VALUES ('alice', 100)`,
} satisfies Partial<VerifyOptions>;

type Payment = typeof payment.message;

function poolOf(env: Readonly<Record<string, string>>, pipeline: boolean): Pool {
  const pool = new Pool({ connectionString: env.DATABASE_URL, pipeline, max: 3 });
  pool.on('error', () => undefined);
  return pool;
}

async function judged(handler: HandlerFactory, more: Partial<VerifyOptions> = {}): Promise<Report> {
  return verify({
    ...payment,
    handler,
    bounds: { total: LONG ? 3 : 2 },
    budgetMs: LONG ? 600_000 : 100_000,
    ...more,
  });
}

const timeout = LONG ? 700_000 : 120_000;

/** The wallet of the README on `createInbox`; `mutate` changes what is sent to the server. */
function wallet(pipeline: boolean, mutate: (text: string) => string = text => text): HandlerFactory {
  return async env => {
    const pool = poolOf(env, pipeline);
    pool.on('connect', client => mutated(client, mutate));
    const inbox = createInbox({ name: 'wallet', store: postgresStore(pool), clock: hasty });
    await inbox.open();
    return {
      handle: (message: Payment) =>
        inbox.process({ id: message.id, body: message }, async ({ body }, { sql }) => {
          await sql`UPDATE wallet SET balance = balance + ${body.amount} WHERE id = ${body.account}`;
        }),
      close: () => pool.end(),
    };
  };
}

function mutated(client: PoolClient, mutate: (text: string) => string): void {
  const query = client.query.bind(client) as (...args: unknown[]) => unknown;
  client.query = ((first: string | { text: string }, ...rest: unknown[]) =>
    query(typeof first === 'string' ? mutate(first) : { ...first, text: mutate(first.text) }, ...rest)) as never;
}

test.each([{ pipeline: true }, { pipeline: false }])(
  'the inbox on pg with pipeline $pipeline takes effect once',
  { timeout },
  async ({ pipeline }) => {
    const report = await judged(wallet(pipeline));
    expect(report.verdict, render(report, 'terminal', { width: 120, colour: false })).toBe('once');
    expect(report.executions).toBeGreaterThan(50);
  },
);

// Each takes one line of safety out of the library. A verifier that acquits one of them proves nothing.
test.each([
  {
    mutant: 'a copy is claimed like the first',
    expected: 'double',
    mutate: (text: string) =>
      text.replace(
        /ON CONFLICT DO NOTHING(?=\s+RETURNING key)/,
        'ON CONFLICT (consumer, key) DO UPDATE SET at = now()',
      ),
  },
  {
    mutant: 'no transaction: the claim stays when its effect does not come',
    expected: 'lost',
    mutate: (text: string) => text.replace(/^BEGIN[^;]*/, 'SELECT 1'),
  },
])('a mutant is convicted: $mutant', { timeout }, async ({ expected, mutate }) => {
  let changed = 0;
  const counting = (text: string) => {
    const other = mutate(text);
    if (other !== text) changed++;
    return other;
  };
  const report = await judged(wallet(false, counting));
  expect(changed, 'the mutation no longer meets the text of the statement').toBeGreaterThan(0);
  expect(report.convictions[0]?.verdict, report.why).toBe(expected);
});
