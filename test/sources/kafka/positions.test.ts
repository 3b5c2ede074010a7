import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createConsumer, type Summary } from '../../../src/index.ts';
import { kafkaSource } from '../../../src/sources/kafka/index.ts';
import { warningsOf } from '../../path/warnings.ts';
import { forEachKafkaClient } from '../../support/each-kafka-client.ts';
import { freshTopic, type TestTopic, testKafka } from '../../support/kafka-topics.ts';
import { until } from '../../support/until.ts';
import { credit, onPostgres, type WalletStore } from '../../support/wallet.ts';

const WITHIN_MS = 60_000;
vi.setConfig({ testTimeout: 180_000 });

// The database is believed before the group's offset, and nobody guesses: on the real broker, with every client.
forEachKafkaClient(client => {
  let topic: TestTopic;
  let w: WalletStore;
  const stops: (() => Promise<unknown>)[] = [];

  beforeEach(async () => {
    w = await onPostgres();
    topic = await freshTopic();
  });
  afterEach(async () => {
    for (const stop of stops.splice(0)) await stop();
    await topic.close();
    await w.drop();
  });

  function start(dedupe: 'position' | 'both' = 'position', from: 'earliest' | 'latest' = 'earliest') {
    const consumer = createConsumer({
      name: 'pay',
      store: w.another(),
      source: kafkaSource({
        client: client.make(undefined, { sessionTimeoutMs: 6_000, heartbeatMs: 300, metadataMaxAgeMs: 1_000 }),
        topics: [topic.name],
        groupId: topic.group,
        from,
      }),
      dedupe,
      handle: (_, context) => credit(context, 5),
    });
    const done: Promise<Summary> = consumer.run();
    done.catch(() => undefined);
    const stop = async () => {
      await consumer.stop({ withinMs: 5_000 });
      return done;
    };
    stops.push(stop);
    return { stop };
  }

  const send = (count: number, from = 0) =>
    topic.send(
      Array.from({ length: count }, (_, i) => ({
        key: 'a',
        value: JSON.stringify({ n: from + i }),
        headers: { 'message-id': `m${from + i}` },
      })),
    );
  const lane = () => `${topic.name}/0`;
  const row = async () => (await w.store.lanes.list('pay')).find(one => one.lane === lane())!;
  const at = (position: number) =>
    until(`position ${position}`, async () => (await row())?.position === BigInt(position), WITHIN_MS);
  const committed = (offset: number) =>
    until(`${offset} is committed`, async () => (await topic.committed())[0] === offset, WITHIN_MS);

  async function setOffset(offset: number): Promise<void> {
    const admin = testKafka().admin();
    await admin.connect();
    await admin.setOffsets({
      groupId: topic.group,
      topic: topic.name,
      partitions: [{ partition: 0, offset: String(offset) }],
    });
    await admin.disconnect();
  }

  test('each record once, and none again after a restart; copies only where ids are looked at too', async () => {
    await send(20);
    const first = start();
    await at(20);
    expect(await first.stop()).toMatchObject({ processed: 20 });
    expect(await w.inboxRows()).toBe(0);
    await committed(20);
    await send(10, 20);
    const second = start();
    await at(30);
    await second.stop();
    expect(await w.balance()).toBe(150);
    // The cluster is known, or the topic, as the client shows it; and the last record too.
    expect((await row()).log).toMatch(/^(?:cluster|topic)=\S+ .*partitions=1$/);
    expect((await row()).mark).toMatch(/^offset=29 .*time=\d+ hash=\w{32}$/);
  });

  test('C97: a database that lost its last commits, while the offsets are committed, has them delivered again', async () => {
    await send(30);
    const first = start('both');
    await at(30);
    await committed(30);
    await first.stop();
    // What a replica has that was promoted before it had everything.
    await w.sql`UPDATE wallet SET balance = 50 WHERE account = 'a'`;
    await w.sql`DELETE FROM nevertwice.inbox WHERE convert_from(substr(key, 2), 'UTF8') = ANY (SELECT 'm' || n FROM generate_series(10, 29) n)`;
    const { epoch, log } = await row();
    await w.store.lanes.begin('pay', lane(), epoch, { position: 10n, log: log!, mark: undefined });
    const second = start('both');
    await at(30);
    expect(await second.stop()).toMatchObject({ processed: 20, duplicates: 0 });
    expect(await w.balance()).toBe(150);
    expect(await topic.committed()).toEqual([30]);
  });

  test('an offset that a person has set is asked about; accepted, it is done', async () => {
    await send(20);
    const first = start();
    await at(20);
    await committed(20);
    await first.stop();
    await setOffset(15);
    const warnings = await warningsOf('NT_OFFSET_RESET');
    const second = start();
    await until('asked', async () => (await warnings.read()).length > 0, WITHIN_MS);
    expect(await w.balance()).toBe(100);
    expect(await w.store.lanes.order('pay', lane(), 'group')).toBe(true);
    await until('done again on purpose', async () => (await w.balance()) === 125, WITHIN_MS);
    await at(20);
    await second.stop();
    expect(await w.balance()).toBe(125);
    await committed(20);
    // The same once more is another word, and not the one that was answered.
    await setOffset(15);
    const third = start();
    await until('asked again', async () => (await warnings.read()).length > 1, WITHIN_MS);
    expect(await w.balance()).toBe(125);
    await third.stop();
  });

  test('a topic that is deleted and made again while it runs: asked about, and then read from its first record', async () => {
    await send(10);
    const { stop } = start();
    await at(10);
    const warnings = await warningsOf('NT_LOG_CHANGED');
    await topic.recreate();
    // A log that is longer again by the client's next fetch can be told from the old one only where fetches name topics by id.
    const total = client.fetchesByTopicId ? 12 : 6;
    await send(total, 100);
    await until('asked', async () => (await warnings.read()).length > 0, WITHIN_MS);
    expect(await w.balance()).toBe(50);
    expect(await w.store.lanes.order('pay', lane(), 'earliest')).toBe(true);
    await at(total);
    await stop();
    expect(await w.balance()).toBe(50 + 5 * total);
  });

  test('the same while nobody looks, and grown past the old position: its record before that is another one', async () => {
    await send(10);
    const first = start();
    await at(10);
    await committed(10);
    await first.stop();
    await topic.recreate();
    await send(30, 100);
    const warnings = await warningsOf('NT_LOG_CHANGED');
    const { stop } = start();
    await until('asked', async () => (await warnings.read()).length > 0, WITHIN_MS);
    expect(await w.balance()).toBe(50);
    await w.store.lanes.order('pay', lane(), 'earliest');
    await at(30);
    await stop();
    expect(await w.balance()).toBe(200);
  });

  test('a partition that is added to a known topic begins with its first record, also from the latest', async () => {
    const first = start('both', 'latest');
    await until('it has begun', async () => (await row())?.position !== undefined, WITHIN_MS);
    await send(5);
    await at(5);
    await first.stop();
    await topic.addPartitions(2);
    await topic.send([{ key: 'a', value: '{}', partition: 1, headers: { 'message-id': 'early' } }]);
    const { stop } = start('both', 'latest');
    await until('the early one is done', async () => (await w.balance()) === 30, WITHIN_MS);
    await stop();
  });

  test('markers and aborted records behind the last position stall nothing and cost no question', async () => {
    await send(3);
    const first = start();
    await at(3);
    await topic.inTransaction([{ key: 'a', value: '{}', headers: { 'message-id': 'never' } }], 'abort');
    await first.stop();
    await topic.inTransaction([{ key: 'a', value: '{}', headers: { 'message-id': 'm3' } }], 'commit');
    const { stop } = start();
    await until('the committed one is done', async () => (await w.balance()) === 20, WITHIN_MS);
    await stop();
    expect(await w.balance()).toBe(20);
  });
});
