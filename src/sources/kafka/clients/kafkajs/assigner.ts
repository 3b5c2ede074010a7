import { shareOut } from '../share-out.ts';

interface GroupMember {
  readonly memberId: string;
  readonly memberMetadata: Buffer;
}

interface Cluster {
  addTargetTopic(topic: string): Promise<unknown>;
  findTopicPartitionMetadata(topic: string): readonly { readonly partitionId: number }[];
}

/**
 * Shares out by subscription under the name and the protocol of the client's own round robin, so that members with either
 * form one group while a deployment rolls.
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
      const subscriptions = new Map(
        members.map(({ memberId, memberMetadata }) => [memberId, decodeTopics(memberMetadata)]),
      );
      const counts = new Map<string, number>();
      for (const topic of new Set([...subscriptions.values()].flat()))
        counts.set(topic, await partitionCount(cluster, topic));
      const assigned = shareOut(subscriptions, topic => counts.get(topic)!);
      return [...assigned].map(([memberId, topics]) => ({ memberId, memberAssignment: encodeAssignment(topics) }));
    },
  };
}

async function partitionCount(cluster: Cluster, topic: string): Promise<number> {
  try {
    await cluster.addTargetTopic(topic);
  } catch {
    return 0;
  }
  return cluster.findTopicPartitionMetadata(topic).length;
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
