interface GroupMember {
  readonly memberId: string;
  readonly memberMetadata: Buffer;
}

interface Cluster {
  addTargetTopic(topic: string): Promise<unknown>;
  findTopicPartitionMetadata(topic: string): readonly { readonly partitionId: number }[];
}

/**
 * The client's round robin, with one difference: each topic goes to the members that subscribe to it, whatever the leader
 * itself reads. The client's own assigns the leader's topics alone, to everybody: where two members of a group read
 * different topics, some partitions are read by nobody. It has the same name and speaks the same protocol, so that
 * members with either form one group while a deployment rolls.
 */
export function bySubscription({ cluster }: { readonly cluster: Cluster }): object {
  return {
    name: 'RoundRobinAssigner',
    version: 0,
    protocol: ({ topics }: { topics: readonly string[] }) => ({
      name: 'RoundRobinAssigner',
      metadata: encodeSubscription(topics),
    }),
    async assign({ members }: { members: readonly GroupMember[] }) {
      const readers = readersOf(members);
      const assigned = new Map<string, Map<string, number[]>>();
      let turn = 0;
      for (const topic of [...readers.keys()].sort()) {
        const ids = readers.get(topic)!;
        for (const partition of await partitionsOf(cluster, topic)) {
          const memberId = ids[turn++ % ids.length]!;
          const mine = assigned.get(memberId) ?? new Map<string, number[]>();
          assigned.set(memberId, mine.set(topic, [...(mine.get(topic) ?? []), partition]));
        }
      }
      return [...assigned].map(([memberId, topics]) => ({ memberId, memberAssignment: encodeAssignment(topics) }));
    },
  };
}

/** Member ids by topic, in order. */
function readersOf(members: readonly GroupMember[]): ReadonlyMap<string, readonly string[]> {
  const readers = new Map<string, string[]>();
  for (const { memberId, memberMetadata } of members.toSorted((a, b) => (a.memberId < b.memberId ? -1 : 1))) {
    for (const topic of decodeTopics(memberMetadata)) readers.set(topic, [...(readers.get(topic) ?? []), memberId]);
  }
  return readers;
}

/** Nothing for a topic that is not there; its reader says so itself. */
async function partitionsOf(cluster: Cluster, topic: string): Promise<readonly number[]> {
  try {
    await cluster.addTargetTopic(topic);
  } catch {
    return [];
  }
  return cluster
    .findTopicPartitionMetadata(topic)
    .map(({ partitionId }) => partitionId)
    .sort((a, b) => a - b);
}

// The consumer protocol, version 0: https://kafka.apache.org/protocol (ConsumerProtocolSubscription, ConsumerProtocolAssignment).

function encodeSubscription(topics: readonly string[]): Buffer {
  return Buffer.concat([int16(0), int32(topics.length), ...topics.map(text), int32(0)]);
}

function encodeAssignment(topics: ReadonlyMap<string, readonly number[]>): Buffer {
  const parts = [...topics].flatMap(([topic, partitions]) => [
    text(topic),
    int32(partitions.length),
    ...partitions.map(int32),
  ]);
  return Buffer.concat([int16(0), int32(topics.size), ...parts, int32(0)]);
}

/** The topics of a subscription of any version: later ones only add at the end. */
function decodeTopics(subscription: Buffer): readonly string[] {
  const topics: string[] = [];
  let at = 6;
  for (let left = subscription.readInt32BE(2); left > 0; left--) {
    const length = subscription.readInt16BE(at);
    topics.push(subscription.toString('utf8', at + 2, at + 2 + length));
    at += 2 + length;
  }
  return topics;
}

function int16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeInt16BE(value);
  return bytes;
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value, 'utf8');
  return Buffer.concat([int16(bytes.length), bytes]);
}
