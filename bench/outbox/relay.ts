import { randomUUID } from 'node:crypto';
import * as platformaticKafka from '@platformatic/kafka';
import { createRelay } from '../../src/index.ts';
import { kafkaDestination, platformatic } from '../../src/sources/kafka/index.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import type { Contestant, Row } from '../contest.ts';
import type { KafkaPlace } from '../kafka/place.ts';
import { fillOutbox } from './add.ts';

const PARTITIONS = 4;
const BATCH = 500;
const ALL_REPLICAS = -1;
const SCHEMA = 'outbox_relay';

export const relayRows: readonly Row[] = [
  { id: 'outbox.raw', what: 'platformatic’s producer, idempotent, batches of 500 from memory' },
  { id: 'outbox.relay', what: 'a relay with that client, from a table', against: 'outbox.raw', target: 0.8 },
];

export function relays(place: KafkaPlace, events: number): readonly Contestant[] {
  return [byHand(place, events), ours(place, events)];
}

/** The same records from memory, batch after batch, so that the order of each key is kept. */
function byHand(place: KafkaPlace, events: number): Contestant {
  let topic = '';
  return {
    id: 'outbox.raw',
    events,
    async prepare() {
      topic = await freshTopic(place);
      const messages = Array.from({ length: events }, (_, i) => ({
        topic,
        key: Buffer.from(`key-${(i + 1) % 1000}`),
        value: Buffer.from(JSON.stringify({ wallet: (i + 1) % 1000, amount: i + 1, note: 'x'.repeat(60) })),
        headers: new Map([[Buffer.from('message-id'), Buffer.from(`${topic}-${i + 1}`)]]),
      }));
      const producer = new platformaticKafka.Producer({
        clientId: 'bench',
        bootstrapBrokers: [place.brokers],
        idempotent: true,
      });
      return async () => {
        for (let at = 0; at < events; at += BATCH) {
          await producer.send({ messages: messages.slice(at, at + BATCH), acks: ALL_REPLICAS });
        }
        await producer.close();
      };
    },
    check: () => assertRecords(place, topic, events),
  };
}

function ours(place: KafkaPlace, events: number): Contestant {
  let topic = '';
  let store: ReturnType<typeof postgresStore> | undefined;
  return {
    id: 'outbox.relay',
    events,
    async prepare() {
      store ??= postgresStore(place.postgres.pool({ max: 8, pipeline: true }), { schema: SCHEMA });
      await store.outbox.open();
      topic = await freshTopic(place);
      await place.postgres.admin.query(`truncate ${SCHEMA}.outbox`);
      await fillOutbox(place.postgres, SCHEMA, topic, events);
      const client = platformatic(platformaticKafka, { clientId: 'bench', bootstrapBrokers: [place.brokers] });
      const relay = createRelay({ store, destination: kafkaDestination({ client }), maxBatch: BATCH });
      return async () => {
        const run = relay.run();
        while (relay.summary.published < events) await new Promise(resolve => setTimeout(resolve, 5));
        await relay.stop();
        await run;
      };
    },
    check: () => assertRecords(place, topic, events),
  };
}

async function freshTopic({ kafka }: KafkaPlace): Promise<string> {
  const topic = `relay-${randomUUID()}`;
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ waitForLeaders: true, topics: [{ topic, numPartitions: PARTITIONS }] });
  await admin.disconnect();
  return topic;
}

async function assertRecords({ kafka }: KafkaPlace, topic: string, events: number): Promise<void> {
  const admin = kafka.admin();
  await admin.connect();
  const ends = await admin.fetchTopicOffsets(topic);
  await admin.disconnect();
  const records = ends.reduce((sum, { high }) => sum + Number(high), 0);
  if (records !== events) throw new Error(`the topic has ${records} records instead of ${events}`);
}
