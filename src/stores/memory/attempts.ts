import type { Attempts } from '../../ports/attempts.ts';

/** For consumers of one process that end without their process. */
export function memoryAttempts(): Attempts {
  const owners = new Map<string, string>();
  const tries = new Map<string, number>();
  const keyOf = (consumer: string, rest: string) => JSON.stringify([consumer, rest]);
  return {
    async enter(consumer, lane, owner) {
      const key = keyOf(consumer, lane);
      const before = owners.get(key);
      owners.set(key, owner);
      return before;
    },
    async leave(consumer, lane, owner) {
      const key = keyOf(consumer, lane);
      if (owners.get(key) === owner) owners.delete(key);
    },
    async begin(consumer, id) {
      const key = keyOf(consumer, id);
      const now = (tries.get(key) ?? 0) + 1;
      tries.set(key, now);
      return now;
    },
    async end(consumer, id) {
      tries.delete(keyOf(consumer, id));
    },
  };
}
