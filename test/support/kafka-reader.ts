import { randomUUID } from 'node:crypto';
import { headerPairs, headersFrom } from '../../src/core/headers.ts';
import type { KafkaRecord, MemberEvents } from '../../src/sources/kafka/client.ts';
import { brokers } from './kafka.ts';
import { clientNamed } from './kafka-clients.ts';
import type { TestTopic } from './kafka-topics.ts';
import { until } from './until.ts';

export interface ReadRecord {
  readonly partition: number;
  readonly offset: number;
  readonly key: string | null;
  readonly value: string | null;
  /** In order, as text; a repeated name once for each value. */
  readonly headers: readonly (readonly [string, string])[];
}

/**
 * All records of the topic that a reader with `read_committed` gets, up to its end as it is now; so a transaction that nobody
 * ends fails the test by its time limit.
 *
 * Not with kafkajs: it takes the broker's list of aborted transactions for sorted by their beginnings, and it is sorted by
 * their ends; so where two overlap it hands out records of one that was aborted.
 */
export async function readCommitted(topic: TestTopic, at = brokers()): Promise<readonly ReadRecord[]> {
  const found: ReadRecord[] = [];
  const read = new Map<number, bigint>();
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => undefined);
  const events: MemberEvents = {
    assigned: () => undefined,
    added: () => undefined,
    revoked: async () => undefined,
    lost: () => undefined,
    failed: failed.reject,
    fetched({ partition, records, next }) {
      found.push(...records.map(record => textsOf(partition, record)));
      read.set(partition, next);
    },
  };
  const joining = { groupId: `r-${randomUUID()}`, topics: [topic.name], from: 'earliest' } as const;
  const member = await clientNamed('platformatic').make(at).join(joining, events);
  try {
    // Not `topic.ends()`, which is where a transaction begins that is still open.
    const partitions = (await topic.ends()).keys();
    const ends = await Promise.all(
      [...partitions].map(async partition => (await member.inspect({ topic: topic.name, partition })).end),
    );
    const all = until('all is read', () => ends.every((end, partition) => (read.get(partition) ?? 0n) >= end), 60_000);
    await Promise.race([all, failed.promise]);
    return found.filter(({ partition, offset }) => offset < ends[partition]!);
  } finally {
    await member.leave();
  }
}

function textsOf(partition: number, { offset, key, value, headers }: KafkaRecord): ReadRecord {
  return {
    partition,
    offset: Number(offset),
    key: key === null ? null : Buffer.from(key).toString(),
    value: value === null ? null : Buffer.from(value).toString(),
    headers: headerPairs(headersFrom(headers)).map(([name, header]) => [name, Buffer.from(header).toString('latin1')]),
  };
}
