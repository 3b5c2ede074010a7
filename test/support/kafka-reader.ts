import { randomUUID } from 'node:crypto';
import { headerPairs, headersFrom } from '../../src/core/headers.ts';
import type { KafkaRecord, MemberEvents } from '../../src/sources/kafka/client.ts';
import { brokers } from './kafka.ts';
import { clientNamed } from './kafka-clients.ts';
import type { TestTopic } from './kafka-topics.ts';

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
  const ends = await topic.ends();
  const found: ReadRecord[] = [];
  const open = new Set(ends.flatMap((end, partition) => (end === 0 ? [] : [partition])));
  const all = Promise.withResolvers<void>();
  if (open.size === 0) all.resolve();
  const events: MemberEvents = {
    assigned: () => undefined,
    added: () => undefined,
    revoked: async () => undefined,
    lost: () => undefined,
    failed: error => all.reject(error),
    fetched({ partition, records, next }) {
      for (const record of records) if (record.offset < ends[partition]!) found.push(textsOf(partition, record));
      if (next >= ends[partition]!) open.delete(partition);
      if (open.size === 0) all.resolve();
    },
  };
  const joining = { groupId: `r-${randomUUID()}`, topics: [topic.name], from: 'earliest' } as const;
  const member = await clientNamed('platformatic').make(at).join(joining, events);
  try {
    await all.promise;
  } finally {
    await member.leave();
  }
  return found;
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
