import { expect, test } from 'vitest';
import { createConsumer, type Source } from '../../src/index.ts';
import { memoryStore } from '../../src/memory.ts';
import { deliverySource } from './deliveries.ts';
import { warningsOf } from './warnings.ts';

const DAY_MS = 86_400_000;

async function warningsFor(
  retentionMs: number,
  options: { readonly retries?: { deliveries: number }; readonly redeliveryHorizonMs?: number } = {},
): Promise<readonly string[]> {
  const { retries, redeliveryHorizonMs } = options;
  const warnings = await warningsOf('NT_RETENTION_SHORT');
  const store = memoryStore({ retentionMs });
  const given = deliverySource([{ id: 'm1' }]);
  const source: Source = {
    name: 'a queue',
    capabilities: { ...given.capabilities, ...(redeliveryHorizonMs === undefined ? {} : { redeliveryHorizonMs }) },
    receive: run => given.receive(run),
  };
  const consumer = createConsumer({ name: 'pay', store, handle: () => undefined, ...(retries && { retries }) });
  await consumer.run({ source });
  await store.close();
  return warnings.read();
}

test('C95: ids that are kept for less than the retries may take are warned of, with both numbers', async () => {
  // 5 deliveries of 5 tries of 30 s and 10 s between them, 30 s for a live owner, and a minute until the next one.
  expect(await warningsFor(1_450_000)).toEqual([]);
  expect(await warningsFor(1_449_999)).toEqual([expect.stringMatching(/kept for 1449999 ms.*retries.* 1450000 ms/)]);
});

test('more deliveries need a longer memory', async () => {
  expect(await warningsFor(1_450_000, { retries: { deliveries: 6 } })).toHaveLength(1);
});

test('C95: and so does a source that says for how long it can deliver a message again', async () => {
  expect(await warningsFor(4 * DAY_MS, { redeliveryHorizonMs: 4 * DAY_MS })).toEqual([]);
  expect(await warningsFor(3 * DAY_MS, { redeliveryHorizonMs: 4 * DAY_MS })).toEqual([
    expect.stringMatching(/a queue may bring a message again after 345600000 ms/),
  ]);
});
