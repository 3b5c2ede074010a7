// A user's own test file under node:test; run by node-test.test.ts.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createConsumer } from '../../src/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { type TestConsumer, testConsumer } from '../../src/testing/index.ts';

const store = sqliteStore(':memory:');
const consumer = createConsumer({
  name: 'wallet',
  store,
  setup: async sql => {
    await sql`CREATE TABLE IF NOT EXISTS credit (amount integer)`;
  },
  handle: async (message, { sql }) => {
    await sql`INSERT INTO credit VALUES (${(message.body as { amount: number }).amount})`;
  },
});
let t: TestConsumer;
before(async () => {
  t = await testConsumer(consumer);
});
after(async () => {
  await t.stop();
  await store.close();
});

const balance = async () => {
  const [row] = await store.transaction(
    (_, sql) => sql<{ sum: number }>`SELECT coalesce(sum(amount), 0) AS sum FROM credit`,
  );
  return Number(row!.sum);
};

void test('a redelivery credits nothing', async () => {
  assert.deepEqual(await t.deliverTwice({ id: 'm1', body: { amount: 500 } }), ['processed', 'duplicate']);
  assert.equal(await balance(), 500);
});

void test('two copies at once credit once', async () => {
  const results = await t.deliverOverlapping({ id: 'm2', body: { amount: 500 } });
  assert.deepEqual([...results].sort(), ['duplicate', 'processed']);
  assert.equal(await balance(), 1000);
});

// With WRONG set this test fails while a message is held: the clean-up must end all the same.
void test('nothing is visible before the commit', async () => {
  const held = t.hold('claim', 'before');
  const delivered = t.deliver({ id: 'm3', body: { amount: 500 } });
  await held.reached;
  assert.equal(await balance(), process.env.WRONG === undefined ? 1000 : 1500);
  held.release();
  assert.equal(await delivered, 'processed');
});
