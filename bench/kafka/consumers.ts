import type { Contestant, Row } from '../contest.ts';
import { batchLoop, eachMessage, plainLoop } from './by-hand.ts';
import type { BenchClient } from './clients.ts';
import { topicLoad } from './load.ts';
import { ours } from './ours.ts';
import type { KafkaPlace } from './place.ts';
import { PARTITIONS } from './reader.ts';

export interface Sizes {
  readonly naive: number;
  readonly batch: number;
}
export const FULL: Sizes = { naive: 4_000, batch: 60_000 };
export const QUICK: Sizes = { naive: 300, batch: 6_000 };

/** Kafka to PostgreSQL with one client, by hand and with this library. */
export function rowsFor(client: string): readonly Row[] {
  const id = (name: string) => `kafka.${client}.${name}`;
  return [
    { id: id('each-message'), what: 'eachMessage, a transaction per message' },
    { id: id('loop.batch'), what: 'batches by hand, set-based, with an inbox' },
    { id: id('loop.plain'), what: 'the same without deduplication' },
    { id: id('batch'), what: 'handleBatch', against: id('loop.batch'), target: 0.9 },
    { id: id('batch.each-message'), what: 'handleBatch', of: id('batch'), against: id('each-message'), target: 8 },
    { id: id('position'), what: 'handleBatch, by position', against: id('loop.plain'), target: 0.9 },
    {
      id: id('position.each-message'),
      what: 'handleBatch, by position',
      of: id('position'),
      against: id('each-message'),
      target: 8,
    },
  ];
}

/** Every run is a new group that reads its topic from the beginning. */
export function contestantsFor(place: KafkaPlace, client: BenchClient, sizes: Sizes): readonly Contestant[] {
  const naive = topicLoad(sizes.naive, PARTITIONS);
  const copied = topicLoad(sizes.batch, PARTITIONS);
  const unique = topicLoad(sizes.batch, PARTITIONS, { copies: false });
  return [
    eachMessage(place, client, naive),
    batchLoop(place, client, copied),
    plainLoop(place, client, unique),
    ours(place, client, copied),
    ours(place, client, unique, 'position'),
  ];
}
