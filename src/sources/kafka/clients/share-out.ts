/**
 * Round robin over the members of a group, each topic among those that subscribe to it, whatever the leader itself reads.
 * The clients' own assigns the leader's topics alone, to everybody: where two members of a group read different topics,
 * some partitions are read by nobody.
 *
 * @param subscriptions topics by member id
 * @param partitionsOf how many partitions a topic has; 0 for one that is not there, whose reader says so itself
 * @returns partitions by topic, by member id
 */
export function shareOut(
  subscriptions: ReadonlyMap<string, readonly string[]>,
  partitionsOf: (topic: string) => number,
): ReadonlyMap<string, ReadonlyMap<string, readonly number[]>> {
  const readers = new Map<string, string[]>();
  // In order of ids and names: who assigns the same group again assigns the same.
  for (const [memberId, topics] of [...subscriptions].sort(([a], [b]) => (a < b ? -1 : 1))) {
    for (const topic of topics) readers.set(topic, [...(readers.get(topic) ?? []), memberId]);
  }
  const assigned = new Map<string, Map<string, number[]>>();
  let turn = 0;
  for (const topic of [...readers.keys()].sort()) {
    const ids = readers.get(topic)!;
    for (let partition = 0; partition < partitionsOf(topic); partition++) {
      const memberId = ids[turn++ % ids.length]!;
      const mine = assigned.get(memberId) ?? new Map<string, number[]>();
      assigned.set(memberId, mine.set(topic, [...(mine.get(topic) ?? []), partition]));
    }
  }
  return assigned;
}
