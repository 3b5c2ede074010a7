import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createConsumer, createOutbox, createRelay, type RelayOptions, type Sql } from '../../src/index.ts';
import { kafkaDestination, kafkaSource } from '../../src/sources/kafka/index.ts';
import { forEachKafkaClient } from '../support/each-kafka-client.ts';
import '../support/kafka.ts';
import { readCommitted } from '../support/kafka-reader.ts';
import { freshTopic, type TestTopic } from '../support/kafka-topics.ts';
import { until } from '../support/until.ts';
import { credit, onPostgres, type WalletStore } from '../support/wallet.ts';
import { isEmpty, whileRunning } from './support.ts';

let w: WalletStore;
let topic: TestTopic;
beforeEach(async () => {
  [w, topic] = await Promise.all([onPostgres(), freshTopic(3)]);
  await w.store.outbox.open();
});
afterEach(async () => {
  await topic.close();
  await w.drop();
});

async function add(n: number, more: (i: number) => { topic?: string; payload?: unknown; key?: string } = () => ({})) {
  const outbox = createOutbox({ store: w.store });
  await w.store.transaction(async tx => {
    for (let i = 0; i < n; i++)
      await outbox.add(tx, {
        topic: topic.name,
        key: `k${i % 7}`,
        id: `m${i}`,
        headers: { n: String(i) },
        payload: i,
        ...more(i),
      });
  });
}
const relay = (destination: RelayOptions['destination'], more: Partial<RelayOptions> = {}) =>
  createRelay({ store: w.store, destination, pollMs: 20, backoff: { minMs: 5, maxMs: 100 }, maxAttempts: 2, ...more });

forEachKafkaClient(client => {
  test.each([undefined, 'fence'])('publishes with key, headers and id, in order per key (fence: %s)', async given => {
    const fence = given === undefined ? {} : { fence: randomUUID() };
    await add(200, i => (i === 3 ? { payload: Uint8Array.from([0, 1, 255]) } : {}));
    const one = relay(kafkaDestination({ client: client.make(), ...fence }), { maxBatch: 30 });
    await whileRunning(one, () => until('all is out', () => isEmpty(w.store), 25_000));
    expect(one.summary).toMatchObject({ published: 200, refused: 0, outages: 0 });
    const records = await readCommitted(topic);
    expect(records).toHaveLength(200);
    for (const [key, ofKey] of Map.groupBy(records, record => record.key!)) {
      const numbers = ofKey.map(({ headers }) => Number(Object.fromEntries(headers).n));
      expect(numbers, key).toEqual(numbers.toSorted((a, b) => a - b));
      expect(new Set(ofKey.map(({ partition }) => partition)).size).toBe(1);
    }
    for (const { headers, value } of records) {
      const { n, 'message-id': id } = Object.fromEntries(headers);
      expect(id).toBe(`m${n}`);
      if (n !== '3') expect(value).toBe(n);
    }
  });

  test('C102, C106: a record that the broker does not take is parked with its key, the others go out', async () => {
    const large = 'x'.repeat(1_200_000);
    await add(30, i => (i === 5 ? { payload: large } : {}));
    const one = relay(kafkaDestination({ client: client.make() }));
    await whileRunning(one, () => until('all else is out', () => isEmpty(w.store), 25_000));
    expect(await w.store.outbox.parked(9)).toMatchObject([{ id: 'm5', key: 'k5', attempts: 2, behind: 3 }]);
    const ids = new Set((await readCommitted(topic)).map(({ headers }) => Object.fromEntries(headers)['message-id']));
    expect(ids.size).toBe(26);
  });

  test('a broker that is not there burns no attempts', async () => {
    await add(3);
    const one = relay(kafkaDestination({ client: client.make('127.0.0.1:1') }), { publishTimeoutMs: 1_500 });
    const found = () => one.summary.outages > 0;
    await whileRunning(one, () => until('it was found down', found, 8_000)).catch(error => {
      // A client that goes on trying by itself is given up by the time limit, which is nobody's fault either.
      if (one.summary.refused > 0) throw error;
    });
    expect(one.summary).toMatchObject({ published: 0, refused: 0, parked: 0 });
    expect((await w.store.outbox.backlog()).waiting).toBe(3);
  }, 40_000);

  test('the next consumer tells copies by the header, by default', async () => {
    await add(50, () => ({ payload: { amount: 2 } }));
    const destination = kafkaDestination({ client: client.make() });
    // Every other batch is published twice.
    let batches = 0;
    const twice = {
      ...destination,
      publishAll: async (messages: never, context: never) => {
        await destination.publishAll!(messages, context);
        if (batches++ % 2 === 0) throw Object.assign(new Error('the answer was lost'), { code: 'ECONNRESET' });
      },
    };
    await whileRunning(relay(twice as never, { maxBatch: 10 }), () =>
      until('all is out', () => isEmpty(w.store), 25_000),
    );
    const consumer = createConsumer<typeof w.store, any>({
      name: topic.group,
      store: w.store,
      source: kafkaSource({ client: client.make(), topics: [topic.name] }),
      handle: (message: { body: { amount: number } }, context: { sql: Sql }) => credit(context, message.body.amount),
    } as never);
    const run = consumer.run();
    await until('all is handled', async () => (await w.balance()) >= 100, 25_000);
    await until('the copies are seen', () => consumer.summary.duplicates > 0, 10_000);
    await consumer.stop();
    await run;
    expect(await w.balance()).toBe(100);
  });
});
