import { shareOut } from '../share-out.ts';
import type { MetadataLike, PlatformaticLike } from './wire.ts';

type Members = ReadonlyMap<string, { readonly topics?: readonly string[] | null }>;
export type AssignerLike = (current: string, members: any, topics: any, metadata: any) => unknown;

/**
 * By subscription. The client hands an assigner the topics that the leader reads, and the metadata of all that anybody reads;
 * its sticky one is right when it is given all of them, and keeps what members have.
 */
export function bySubscription(kafka: PlatformaticLike, cooperative: boolean): AssignerLike {
  return (current, members: Members, _topics, metadata: MetadataLike) => {
    const subscriptions = new Map([...members].map(([id, { topics }]) => [id, topics ?? []]));
    if (cooperative) {
      return kafka.cooperativeStickyAssigner(current, members, new Set([...subscriptions.values()].flat()), metadata);
    }
    const assigned = shareOut(subscriptions, topic => metadata.topics.get(topic)?.partitionsCount ?? 0);
    return [...members.keys()].map(memberId => ({
      memberId,
      assignments: new Map(
        [...(assigned.get(memberId) ?? [])].map(([topic, partitions]) => [
          topic,
          { topic, partitions: [...partitions] },
        ]),
      ),
    }));
  };
}
