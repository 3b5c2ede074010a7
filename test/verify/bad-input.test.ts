import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { type VerifyOptions, verify } from '../../src/verify/index.ts';
import { freshDatabase } from '../support/postgres.ts';

let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'nevertwice-verify-'));
  await (await freshDatabase()).drop();
});
afterAll(() => rmSync(folder, { recursive: true }));

const WALLET = 'CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL)';
const common = { message: { id: 'm1' }, schema: WALLET, seed: `INSERT INTO wallet VALUES ('a', 1)` };

/** Why nothing is said about a module with this text: one line. */
async function whyUnknown(text: string, options: Partial<VerifyOptions> = {}): Promise<string> {
  const handler = join(folder, `handler-${Math.random().toString(36).slice(2)}.mjs`);
  writeFileSync(handler, text);
  const postgres = inject('services').NEVERTWICE_TEST_POSTGRES!;
  const why = await verify({ ...common, handler, postgres, budgetMs: 20_000, thinkMs: 700, ...options }).then(
    report => {
      expect(report.verdict).toBe('unknown');
      return report.why!;
    },
    (error: Error) => {
      expect(error.name).toBe('VerifyError');
      return error.message;
    },
  );
  expect(why).not.toContain('\n');
  return why;
}

const LONG = { timeout: 60_000 };

test.for([
  ['a syntax error', 'export default async function (message) {', /syntax error/],
  ['code that throws while it loads', `throw new Error('no config')`, /no config/],
  ['code that ends the process while it loads', 'process.exit(3)', /ended while it was loading/],
  ['no handler', 'export const a = 1', /exports no handler/],
  ['a package that is not there', `import 'no-such-package'; export default () => {}`, /no-such-package/],
  [
    'a handler that always throws, a string',
    `export default async () => { throw 'no' }`,
    /fails on the message as it is.*no/,
  ],
  [
    'a handler that ends the process',
    `export default async () => { process.exit(0) }`,
    /fails on the message as it is/,
  ],
  ['a handler that hangs', `export default () => new Promise(() => {})`, /cannot hold/],
  ['a handler that never acks', `export default async () => {}`, /never acked/, { manualAck: true }],
  [
    'leases that cannot run out',
    `export default async () => {}`,
    /the SQL of expire fails/,
    { expire: 'UPDATE lease' },
  ],
  ['records that cannot be gone', `export default async () => {}`, /the SQL of prune fails/, { prune: 'DELETE seen' }],
  // Whatever is delivered to it, nothing could be doubled or lost: a wrong message, or a branch that does not commit.
  ['a handler that changes nothing', `export default async () => {}`, /a plain delivery changes nothing/],
  [
    'a handler that waits for a timer',
    `export default async () => { await new Promise(resolve => setTimeout(resolve, 20)) }`,
    /a timer of 20 ms \(setTimeout at handler-/,
  ],
  [
    'a handler that talks past the gates',
    `import { connect } from 'node:net';
     export default async () => { await new Promise(resolve => connect(9, '127.0.0.1').on('error', resolve)) }`,
    /a connection to 127\.0\.0\.1:9/,
  ],
] as const)('%s', LONG, async ([, text, expected, options = {}]) => {
  expect(await whyUnknown(text, options)).toMatch(expected);
});

test('a handler that prints a megabyte is judged all the same', LONG, async () => {
  const handler = join(folder, 'prints.mjs');
  writeFileSync(
    handler,
    `export default async (message, broker) => { console.log('x'.repeat(1_000_000)); await broker.publish('paid') }`,
  );
  const report = await verify({
    ...common,
    handler,
    postgres: inject('services').NEVERTWICE_TEST_POSTGRES!,
    bounds: { total: 0 },
  });
  expect(report.verdict).toBe('once');
});

const NOTHING = `export default async () => {}`;

test.for([
  ['a schema that does not load', { schema: 'CREATE TABEL x ()' }, /the schema does not load: syntax error/],
  ['a schema that is not there', { schema: './no-such.sql' }, /no-such\.sql does not exist/],
  ['a seed that does not fit', { seed: `INSERT INTO wallet VALUES ('a')` }, /the seed does not load/],
  ['a broker that there is not', { broker: 'zeromq' as never }, /there is no broker zeromq; there are kafka/],
  ['no database', { postgres: 'postgres://nobody:x@127.0.0.1:9/x' }, /PostgreSQL cannot be used/],
  ['no message', { message: undefined as never }, /no message to deliver/],
  ['a token of another handler', { replay: '00000000-AA' }, /another version of the handler/],
  ['no token', { replay: 'x' }, /no token of a report/],
] as const)('%s', LONG, async ([, options, expected]) => {
  expect(await whyUnknown(NOTHING, options)).toMatch(expected);
});

test('a module that is not there', async () => {
  await expect(verify({ ...common, handler: './no-such.ts' })).rejects.toThrow('module ./no-such.ts does not exist');
});
