import { describeError, NevertwiceError } from '../../errors.ts';
import type { Destination, PublishedMessage } from '../../outbox/destination.ts';
import type { KafkaClient } from './client.ts';
import { type KafkaPublisher, type ProducedRecord, ProducerFailure } from './producer.ts';

export interface KafkaDestinationOptions {
  /** The user's own client, wrapped by its name: `kafkajs(kafka)`. */
  readonly client: KafkaClient;
  /**
   * Transactions under `<fence>-<part>`, so that a relay that was taken for dead can write nothing any more once another one
   * has its part. The same text in all relays of one outbox, and in no other. Readers must read committed records. For
   * consumers that cannot tell copies by their id over a long time; a crash between commit and delete still repeats a batch.
   * Default: none.
   */
  readonly fence?: string;
}

/**
 * Publishes to Kafka: topic, key, headers and payload become a record's, the id travels in the header `message-id`. A
 * message counts as published once all replicas in sync have it (`acks` is set for you).
 *
 * Keep to one client for a topic: each may put a key into another partition.
 */
export function kafkaDestination(options: KafkaDestinationOptions): Destination {
  const { client, fence } = options;
  if (client.publisher === undefined) {
    throw new NevertwiceError(
      'NT_CONFIG',
      `the Kafka client ${client.name} cannot publish; use one of nevertwice/kafka`,
    );
  }
  if (fence === '')
    throw new NevertwiceError('NT_CONFIG', 'fence is empty; give a text that all relays of this outbox share');
  // With a fence each part has an id of its own.
  const publishers = new Map<number, Promise<KafkaPublisher>>();
  const publisherOf = (place: number): Promise<KafkaPublisher> => {
    const known = publishers.get(place);
    if (known !== undefined) return known;
    const made = client.publisher!({ transactionalId: fence === undefined ? undefined : `${fence}-${place}` });
    publishers.set(place, made);
    return made;
  };
  // Only what failed: beside it somebody may have made the next one by now.
  const giveUp = async (place: number, made: Promise<KafkaPublisher>) => {
    if (publishers.get(place) === made) publishers.delete(place);
    await made.then(publisher => publisher.close()).catch(() => undefined);
  };
  return {
    name: `kafka (${client.name})`,
    async publishAll(messages, { part }) {
      const place = fence === undefined ? 0 : part;
      const made = publisherOf(place);
      try {
        await (await made).publish(messages.map(recordOf));
      } catch (error) {
        await giveUp(place, made);
        throw meaningOf(error);
      }
    },
    async close() {
      await Promise.all([...publishers].map(([place, made]) => giveUp(place, made)));
    },
  };
}

function recordOf({ topic, key, headers, payload }: PublishedMessage): ProducedRecord {
  return {
    topic,
    partition: undefined,
    key: key === undefined ? null : Buffer.from(key, 'utf8'),
    value: Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength),
    headers: Object.entries(headers).map(([name, value]) => [name, Buffer.from(value, 'utf8')] as const),
  };
}

/** What concerns one topic alone: it does not exist, or is not ours to write to. Numbers of the broker and of librdkafka. */
const OF_TOPIC: ReadonlySet<unknown> = new Set([3, 29, -188, -190]);

function meaningOf(error: unknown): unknown {
  const kind = error instanceof ProducerFailure ? error.kind : 'unknown';
  if (kind === 'unwritable' || isOfTopic(error)) return error;
  if (kind === 'fenced') {
    return new NevertwiceError('NT_BUSY', 'another relay has this part of the outbox', { cause: error });
  }
  return new NevertwiceError('NT_SOURCE_DOWN', `Kafka did not take the records: ${describeError(error)}`, {
    cause: error,
  });
}

/** Clients wrap what the broker has said, some of them in a list. */
function isOfTopic(error: unknown, depth = 0): boolean {
  if (typeof error !== 'object' || error === null || depth > 5) return false;
  const { code, apiCode, cause, errors } = error as Record<string, unknown>;
  if (OF_TOPIC.has(code) || OF_TOPIC.has(apiCode)) return true;
  return [cause, ...(Array.isArray(errors) ? errors : [])].some(inner => isOfTopic(inner, depth + 1));
}
