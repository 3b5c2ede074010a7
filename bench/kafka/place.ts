import { Kafka, logLevel } from 'kafkajs';
import { KAFKA_VERSION } from '../../scripts/kafka/programs.ts';
import { type KafkaServer, startKafka } from '../../test/support/kafka-server.ts';
import { PostgresPlace } from '../sql/postgres/place.ts';
import type { Sent, TopicLoad } from './load.ts';

const RECORDS_A_SEND = 1_000;

/** A broker and a database of this bench alone. */
export class KafkaPlace {
  readonly postgres: PostgresPlace;
  readonly kafka: Kafka;
  readonly brokers: string;
  readonly #server: KafkaServer;
  readonly #filled = new Map<string, Promise<void>>();

  private constructor(server: KafkaServer, postgres: PostgresPlace) {
    this.#server = server;
    this.brokers = server.brokers;
    this.postgres = postgres;
    this.kafka = new Kafka({ clientId: 'bench', brokers: [server.brokers], logLevel: logLevel.NOTHING });
  }

  static async open(): Promise<KafkaPlace> {
    const server = await startKafka();
    try {
      return new KafkaPlace(server, await PostgresPlace.open());
    } catch (error) {
      await server.stop();
      throw error;
    }
  }

  /** The topic is there, with its records, when this resolves. */
  filled(load: TopicLoad): Promise<void> {
    let filling = this.#filled.get(load.topic);
    if (filling === undefined) {
      filling = this.fill(load.topic, load);
      this.#filled.set(load.topic, filling);
    }
    return filling;
  }

  /** A new topic with the records of `load`, for who also adds some and so cannot share it. */
  async fill(topic: string, load: TopicLoad): Promise<void> {
    const admin = this.kafka.admin();
    await admin.connect();
    await admin.createTopics({ waitForLeaders: true, topics: [{ topic, numPartitions: load.partitions }] });
    await admin.disconnect();
    const producer = this.kafka.producer();
    await producer.connect();
    for (const messages of chunksOf(load.sent())) await producer.send({ topic, messages });
    await producer.disconnect();
  }

  async facts(): Promise<string> {
    return `Kafka ${KAFKA_VERSION}, one broker; ${await this.postgres.facts()}`;
  }

  async close(): Promise<void> {
    await this.postgres.close();
    await this.#server.stop();
  }
}

function* chunksOf(sent: Iterable<Sent>): Generator<Sent[]> {
  let chunk: Sent[] = [];
  for (const record of sent) {
    if (chunk.push(record) < RECORDS_A_SEND) continue;
    yield chunk;
    chunk = [];
  }
  if (chunk.length > 0) yield chunk;
}
