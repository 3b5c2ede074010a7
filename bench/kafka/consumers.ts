import { randomUUID } from 'node:crypto';
import type { EachBatchPayload, Consumer as KafkaConsumer, KafkaMessage } from 'kafkajs';
import type { Client } from 'pg';
import { createConsumer } from '../../src/index.ts';
import { kafkajs, kafkaSource } from '../../src/sources/kafka/index.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { BATCH, type Payment } from '../sql/load.ts';
import { walletContestant } from '../sql/postgres/place.ts';
import { claim, credit, creditAll } from '../sql/postgres/statements.ts';
import type { Shape } from '../sql/shape.ts';
import { type TopicLoad, topicLoad } from './load.ts';
import type { KafkaPlace } from './place.ts';

export interface Sizes {
  readonly naive: number;
  readonly batch: number;
}
export const FULL: Sizes = { naive: 4_000, batch: 60_000 };
export const QUICK: Sizes = { naive: 1_000, batch: 12_000 };

const PARTITIONS = 4;

/** Kafka to PostgreSQL with kafkajs. Every run is a new group that reads the topic from its beginning. */
export function consumers(sizes: Sizes): Shape<KafkaPlace> {
  const small = topicLoad(sizes.naive, PARTITIONS);
  const large = topicLoad(sizes.batch, PARTITIONS);
  return {
    rows: [
      { id: 'kafka.kafkajs.each-message', what: 'eachMessage, a transaction per message' },
      { id: 'kafka.kafkajs.loop.batch', what: 'eachBatch by hand, set-based, with an inbox' },
      { id: 'kafka.kafkajs.batch', what: 'handleBatch', against: 'kafka.kafkajs.loop.batch', target: 0.9 },
      {
        id: 'kafka.kafkajs.batch.each-message',
        what: 'handleBatch',
        of: 'kafka.kafkajs.batch',
        against: 'kafka.kafkajs.each-message',
        target: 8,
      },
    ],
    contestants: place => [eachMessage(place, small), byHand(place, large), ours(place, large)],
  };
}

/** Resolves once `load.events` records were told to `done`; the consumer is in a group of its own and leaves it then. */
async function untilRead(
  place: KafkaPlace,
  load: TopicLoad,
  run: (consumer: KafkaConsumer, done: (records: number) => void) => Promise<void>,
): Promise<() => Promise<void>> {
  const consumer = place.kafka.consumer({ groupId: randomUUID(), maxWaitTimeInMs: 100 });
  await consumer.connect();
  await consumer.subscribe({ topics: [load.topic], fromBeginning: true });
  return async () => {
    const all = Promise.withResolvers<void>();
    let read = 0;
    consumer.on(consumer.events.CRASH, ({ payload }) => all.reject(payload.error));
    await run(consumer, records => {
      read += records;
      if (read === load.events) all.resolve();
    });
    await all.promise;
    await consumer.disconnect();
  };
}

const idOf = ({ headers }: KafkaMessage) => String(headers!['message-id']);
const paymentOf = ({ value }: KafkaMessage) => JSON.parse(String(value)) as Payment;

function eachMessage(place: KafkaPlace, load: TopicLoad) {
  return walletContestant(place.postgres, {
    id: 'kafka.kafkajs.each-message',
    load,
    async open(schema) {
      await place.filled(load);
      const pool = place.postgres.pool({ max: PARTITIONS });
      const claiming = claim(schema);
      const crediting = credit(schema);
      return () =>
        untilRead(place, load, (consumer, done) =>
          consumer.run({
            partitionsConsumedConcurrently: PARTITIONS,
            eachMessage: async ({ message }) => {
              const client = await pool.connect();
              await client.query('begin');
              const { rows } = await client.query(claiming.with([idOf(message)]));
              if (rows.length > 0) await client.query(crediting.with(paymentOf(message)));
              await client.query('commit');
              client.release();
              done(1);
            },
          }),
        );
    },
  });
}

/** As a skilled engineer writes it: 500 records a transaction, one pipelined connection a partition, everything prepared. */
function byHand(place: KafkaPlace, load: TopicLoad) {
  return walletContestant(place.postgres, {
    id: 'kafka.kafkajs.loop.batch',
    load,
    async open(schema) {
      await place.filled(load);
      const clients = await Promise.all(
        Array.from({ length: PARTITIONS }, () => place.postgres.client({ pipeline: true })),
      );
      const claiming = claim(schema);
      const crediting = creditAll(schema);
      const apply = async (client: Client, messages: readonly KafkaMessage[]) => {
        const firsts = new Map<string, KafkaMessage>();
        for (const message of messages) if (!firsts.has(idOf(message))) firsts.set(idOf(message), message);
        const [, { rows }] = await Promise.all([
          client.query('begin'),
          client.query<{ message_id: string }>(claiming.with([...firsts.keys()].sort())),
        ]);
        const fresh = rows.map(row => paymentOf(firsts.get(row.message_id)!));
        await Promise.all([client.query(crediting.with(fresh)), client.query('commit')]);
      };
      const eachBatch = (done: (records: number) => void) => async (payload: EachBatchPayload) => {
        const { batch, resolveOffset, heartbeat, commitOffsetsIfNecessary } = payload;
        for (let at = 0; at < batch.messages.length; at += BATCH) {
          const messages = batch.messages.slice(at, at + BATCH);
          await apply(clients[batch.partition]!, messages);
          resolveOffset(messages.at(-1)!.offset);
          await commitOffsetsIfNecessary();
          await heartbeat();
          done(messages.length);
        }
      };
      return () =>
        untilRead(place, load, (consumer, done) =>
          consumer.run({
            eachBatchAutoResolve: false,
            autoCommitInterval: 1_000,
            partitionsConsumedConcurrently: PARTITIONS,
            eachBatch: eachBatch(done),
          }),
        );
    },
  });
}

function ours(place: KafkaPlace, load: TopicLoad) {
  return walletContestant(place.postgres, {
    id: 'kafka.kafkajs.batch',
    load,
    async open(schema) {
      await place.filled(load);
      const store = postgresStore(place.postgres.pool({ max: PARTITIONS + 1, pipeline: true }), { schema });
      await store.migrate();
      const crediting = creditAll(schema);
      return async () => {
        const all = Promise.withResolvers<void>();
        let read = 0;
        const source = kafkaSource({ client: kafkajs(place.kafka), topics: [load.topic], groupId: randomUUID() });
        const consumer = createConsumer({
          name: 'wallet',
          source: settling(source, records => {
            read += records;
            if (read === load.events) all.resolve();
          }),
          store,
          concurrency: PARTITIONS,
          handleBatch: (messages, { tx }) => tx.query(crediting.with(messages.map(({ body }) => body as Payment))),
        });
        return async () => {
          const running = consumer.run();
          await Promise.race([all.promise, running]);
          await consumer.stop();
          const { processed, duplicates } = await running;
          if (processed !== load.messages || processed + duplicates !== load.events) {
            throw new Error(`the summary says ${processed} and ${duplicates} duplicates`);
          }
        };
      };
    },
  });
}

/** The same source; `done` hears how many deliveries each settle was about. */
function settling(source: ReturnType<typeof kafkaSource>, done: (records: number) => void): typeof source {
  return {
    ...source,
    receive(options) {
      const lanes = source.receive(options)[Symbol.asyncIterator]();
      return {
        [Symbol.asyncIterator]: () => ({
          async next() {
            const next = await lanes.next();
            if (next.done === true) return next;
            const lane = next.value;
            return {
              done: false,
              value: {
                id: lane.id,
                revoked: lane.revoked,
                receive: (max, signal) => lane.receive(max, signal),
                async settle(settlements) {
                  await lane.settle(settlements);
                  done(settlements.length);
                },
              },
            };
          },
          return: async () => (await lanes.return?.()) ?? { done: true, value: undefined },
        }),
      };
    },
  };
}
