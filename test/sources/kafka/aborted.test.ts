import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import type { MemberEvents } from '../../../src/sources/kafka/client.ts';
import { withoutAborted } from '../../../src/sources/kafka/clients/kafkajs/aborted.ts';
import { forEachKafkaClient } from '../../support/each-kafka-client.ts';
import { freshTopic, testKafka } from '../../support/kafka-topics.ts';
import { endsWithin } from '../../support/until.ts';

forEachKafkaClient(client => {
  test('records of aborted transactions that overlap are not read, whichever ends first', {
    timeout: 60_000,
  }, async () => {
    const topic = await freshTopic();
    const producers = [0, 1].map(() =>
      testKafka().producer({ transactionalId: `x-${randomUUID()}`, maxInFlightRequests: 1, idempotent: true }),
    );
    const end = Promise.withResolvers<void>();
    const read: string[] = [];
    const events: MemberEvents = {
      assigned: () => undefined,
      added: () => undefined,
      revoked: async () => undefined,
      lost: () => undefined,
      failed: error => end.reject(error),
      fetched({ records }) {
        read.push(...records.map(({ value }) => Buffer.from(value!).toString()));
        if (read.includes('end')) end.resolve();
      },
    };
    try {
      await Promise.all(producers.map(producer => producer.connect()));
      const [first, second] = await Promise.all(producers.map(producer => producer.transaction()));
      await first!.send({ topic: topic.name, messages: [{ value: 'aborted 1' }] });
      await second!.send({ topic: topic.name, messages: [{ value: 'aborted 2' }] });
      await second!.abort();
      await first!.abort();
      const third = await producers[0]!.transaction();
      await third.send({ topic: topic.name, messages: [{ value: 'committed' }] });
      await third.commit();
      await topic.send([{ value: 'end' }]);
      const member = await client.make().join({ groupId: topic.group, topics: [topic.name], from: 'earliest' }, events);
      await endsWithin(30_000, 'all is read', end.promise).finally(() => member.leave());
      expect(read).toEqual(['committed', 'end']);
    } finally {
      await Promise.all(producers.map(producer => producer.disconnect()));
      await topic.close();
    }
  });
});

test("what no marker in the fetch decides is left to the client; another producer's marker decides nothing", () => {
  const data = (offset: string, producerId: string, inTransaction = true) => ({
    offset,
    key: null,
    batchContext: { producerId, inTransaction },
  });
  const marker = (offset: string, producerId: string, type: number) => ({
    ...data(offset, producerId),
    isControlRecord: true,
    key: Buffer.from([0, 0, 0, type]),
  });
  const messages = [data('0', 'a'), data('1', 'b'), data('2', '-1', false), data('4', 'a'), data('6', 'b')];
  const fetched = [...messages.slice(0, 3), marker('3', 'a', 0), messages[3]!, marker('5', 'a', 1), messages[4]!];
  expect(withoutAborted(messages, fetched).map(({ offset }) => offset)).toEqual(['1', '2', '4', '6']);
});
