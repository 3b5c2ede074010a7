import { randomUUID } from 'node:crypto';
import { createConsumer } from '../../src/index.ts';
import { kafkaSource } from '../../src/sources/kafka/index.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import type { Contestant } from '../contest.ts';
import type { Payment } from '../sql/load.ts';
import { walletContestant } from '../sql/postgres/place.ts';
import { creditAll } from '../sql/postgres/statements.ts';
import type { BenchClient } from './clients.ts';
import type { TopicLoad } from './load.ts';
import type { KafkaPlace } from './place.ts';
import { PARTITIONS } from './reader.ts';
import { watchedSource } from './watched-source.ts';

/** `handleBatch` on `kafkaSource`, with the defaults of both. */
export function ours(
  place: KafkaPlace,
  client: BenchClient,
  load: TopicLoad,
  dedupe: 'id' | 'position' = 'id',
): Contestant {
  return walletContestant(place.postgres, {
    id: `kafka.${client.name}.${dedupe === 'id' ? 'batch' : 'position'}`,
    load,
    async open(schema) {
      await place.filled(load);
      const store = postgresStore(place.postgres.pool({ max: PARTITIONS + 1, pipeline: true }), { schema });
      await store.migrate();
      const kafka = client.ours(place.brokers);
      const crediting = creditAll(schema);
      return () => {
        const all = Promise.withResolvers<void>();
        let read = 0;
        const source = kafkaSource({ client: kafka, topics: [load.topic], groupId: randomUUID() });
        const consumer = createConsumer({
          name: 'wallet',
          source: watchedSource(source, {
            settled(deliveries) {
              read += deliveries;
              if (read >= load.events) all.resolve();
            },
          }),
          store,
          dedupe,
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
