import type { Attempts } from '../../ports/attempts.ts';
import type { Connection } from './connection.ts';
import type { ConsumerKeys } from './keys.ts';
import { enterLane, leaveLane } from './scripts/lane-owner.ts';

/** Two hashes of each consumer: lane → owner, and id → tries. */
export function redisAttempts(connection: Connection, keysOf: (consumer: string) => ConsumerKeys): Attempts {
  return {
    async enter(consumer, lane, owner) {
      const before = await connection.run(enterLane, [keysOf(consumer).laneOwners], [lane, owner]);
      return before === null ? undefined : String(before);
    },
    async leave(consumer, lane, owner) {
      await connection.run(leaveLane, [keysOf(consumer).laneOwners], [lane, owner]);
    },
    async begin(consumer, id) {
      const key = keysOf(consumer).attempts;
      return Number(await connection.send(key, ['HINCRBY', key, id, '1']));
    },
    async end(consumer, id) {
      const key = keysOf(consumer).attempts;
      await connection.send(key, ['HDEL', key, id]);
    },
  };
}
