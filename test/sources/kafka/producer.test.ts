import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Member, MemberEvents } from '../../../src/sources/kafka/client.ts';
import { inChunks, type ProducedRecord, type TransactionalProducer } from '../../../src/sources/kafka/producer.ts';
import { forEachKafkaClient } from '../../support/each-kafka-client.ts';
import { readCommitted } from '../../support/kafka-reader.ts';
import { freshTopic, type TestTopic } from '../../support/kafka-topics.ts';
import { until } from '../../support/until.ts';

vi.setConfig({ testTimeout: 60_000 });

let input: TestTopic;
let output: TestTopic;
let member: Member;
let producers: TransactionalProducer[];

const record = (topic: string, value: string): ProducedRecord => ({
  topic,
  partition: undefined,
  key: null,
  value: Buffer.from(value),
  headers: [],
});

forEachKafkaClient(client => {
  const kafka = () => client.make(undefined, { sessionTimeoutMs: 6_000, heartbeatMs: 300 });

  beforeEach(async () => {
    [input, output] = await Promise.all([freshTopic(), freshTopic()]);
    producers = [];
    const assigned = Promise.withResolvers<void>();
    const events: MemberEvents = {
      assigned: () => assigned.resolve(),
      added: () => assigned.resolve(),
      revoked: async () => undefined,
      lost: () => undefined,
      fetched: () => undefined,
      failed: error => assigned.reject(error),
    };
    member = await kafka().join({ groupId: input.group, topics: [input.name], from: 'earliest' }, events);
    await assigned.promise;
  });
  afterEach(async () => {
    for (const producer of producers) await producer.close();
    await member.leave();
    await Promise.all([input.close(), output.close()]);
  });

  async function open(): Promise<TransactionalProducer> {
    const options = { transactionalId: `x-${input.group}`, groupId: input.group, member };
    const producer = await kafka().producer!(options);
    producers.push(producer);
    return producer;
  }
  const transact = (producer: TransactionalProducer, value: string, offset: bigint, produced = async () => {}) =>
    producer.transact({
      outputs: [record(output.name, value)],
      offset: { topic: input.name, partition: 0, offset },
      produced,
    });
  const seen = async () => (await readCommitted(output)).map(({ value }) => value);

  test('C59: whoever opens a producer with the same id fences the one before in mid-transaction: nothing of it is seen, and the new one goes on', async () => {
    const zombie = await open();
    await transact(zombie, 'first', 1n);
    let heir: TransactionalProducer | undefined;
    const refused = transact(zombie, 'of the zombie', 2n, async () => {
      heir = await open();
    });
    await expect(refused).rejects.toMatchObject({ kind: 'fenced' });
    expect(await input.committed()).toEqual([1]);
    await transact(heir!, 'of the heir', 2n);
    // The broker answers a commit when it is decided, and carries it out in the next milliseconds.
    await until('the offset is committed', async () => (await input.committed())[0] === 2);
    expect(await seen()).toEqual(['first', 'of the heir']);
  });

  test('what is thrown before the commit aborts, and is passed on', async () => {
    const producer = await open();
    const thrown = new Error('not yet');
    await expect(transact(producer, 'aborted', 1n, () => Promise.reject(thrown))).rejects.toBe(thrown);
    expect(await input.committed()).toEqual([-1]);
    await transact(await open(), 'committed', 1n);
    expect(await seen()).toEqual(['committed']);
  });
});

describe('chunks', () => {
  test('are as large as allowed; a record that is larger is alone', () => {
    const sized = (bytes: number) => ({ ...record('t', ''), value: Buffer.alloc(bytes) });
    const chunks = inChunks([sized(60), sized(60), sized(500), sized(1), sized(1)], 200);
    expect(chunks.map(chunk => chunk.map(({ value }) => value!.length))).toEqual([[60, 60], [500], [1, 1]]);
  });

  test('of nothing there are none', () => {
    expect(inChunks([], 200)).toEqual([]);
  });
});
