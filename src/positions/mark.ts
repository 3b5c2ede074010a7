import { createHash } from 'node:crypto';
import type { Delivery } from '../ports/delivery.ts';
import type { LogState } from '../ports/log.ts';

/**
 * How a log and its records are known again, as short texts beside the position: a topic that was deleted and made again,
 * or a log that lost its end, has the same offsets with other records.
 */

/** `cluster=… topic=… partitions=4`; what the client does not show is left out. */
export function logText({ clusterId, topicId, partitions }: LogState): string {
  const parts = [
    ...(clusterId === undefined ? [] : [`cluster=${clusterId}`]),
    ...(topicId === undefined ? [] : [`topic=${topicId}`]),
    `partitions=${partitions}`,
  ];
  return parts.join(' ');
}

/** A field of such a text. */
export function fieldOf(text: string | undefined, name: string): string | undefined {
  return text
    ?.split(' ')
    .find(part => part.startsWith(`${name}=`))
    ?.slice(name.length + 1);
}

/**
 * The text that is known, with what another client shows beside it. The number of partitions stays what it was when the
 * consumer first met the topic, or none would count as added.
 */
export function extended(known: string | undefined, found: LogState): string {
  if (known === undefined) return logText(found);
  const more = logText(found)
    .split(' ')
    .filter(part => /^(?:cluster|topic)=/.test(part) && fieldOf(known, part.split('=', 1)[0]!) === undefined);
  return [...more, known].join(' ');
}

/** What differs for certain between the log that is known and the one that is there: `cluster` or `topic`. */
export function otherLog(known: string | undefined, found: LogState): 'cluster' | 'topic' | undefined {
  const now = logText(found);
  return (['cluster', 'topic'] as const).find(name => {
    const [was, is] = [fieldOf(known, name), fieldOf(now, name)];
    return was !== undefined && is !== undefined && was !== is;
  });
}

/** `offset=41 epoch=3 time=1700000000000 hash=…`: the last record before a position. */
export function markOf({ offset, leaderEpoch, time, keyBytes, value }: Delivery): string {
  const hash = createHash('sha256');
  for (const part of [keyBytes, value]) {
    // The length in front: a key "ab" with a value "c" is not a key "a" with a value "bc", nor is a missing one empty.
    const bytes = part === undefined ? undefined : Buffer.from(part as string);
    hash.update(`${bytes?.length ?? 'none'}:`);
    if (bytes !== undefined) hash.update(bytes);
  }
  return [
    `offset=${offset}`,
    ...(leaderEpoch === undefined ? [] : [`epoch=${leaderEpoch}`]),
    ...(time === undefined ? [] : [`time=${time.getTime()}`]),
    `hash=${hash.digest('hex').slice(0, 32)}`,
  ].join(' ');
}

/** True when the record is the one that left this mark. The epoch is for people: clients differ in whether they show it. */
export function isMarked(delivery: Delivery, mark: string): boolean {
  const own = markOf(delivery);
  return ['offset', 'time', 'hash'].every(name => fieldOf(own, name) === fieldOf(mark, name));
}
