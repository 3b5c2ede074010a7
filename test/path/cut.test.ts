import { expect, test } from 'vitest';
import { createConsumer } from '../../src/index.ts';
import { memorySource } from '../../src/memory.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';

test('a batch that is cut short for its time lets no later message of another type overtake its key', async () => {
  let now = 0;
  const order: string[] = [];
  const handle = (message: { id: string }) => {
    order.push(message.id);
    now += 1_000;
  };
  const consumer = createConsumer({
    name: 'cut',
    store: sqliteStore(':memory:'),
    batchBudgetMs: 10,
    clock: { monotonicMs: () => now, random: Math.random, sleep: () => Promise.resolve() },
    handlers: { A: { handle }, B: { handle } },
  });
  const messages = [
    { id: 'a1', type: 'A', key: 'k1', body: {} },
    { id: 'a2', type: 'A', key: 'k2', body: {} },
    { id: 'b3', type: 'B', key: 'k2', body: {} },
  ];
  expect(await consumer.run({ source: memorySource(messages) })).toMatchObject({ processed: 3 });
  expect(order).toEqual(['a1', 'a2', 'b3']);
});
