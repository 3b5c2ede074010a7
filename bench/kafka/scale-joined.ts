import { setTimeout as sleep } from 'node:timers/promises';
import type { Kafka } from 'kafkajs';
import type { Members } from './scale-members.ts';

const POLL_MS = 50;
const JOIN_WITHIN_MS = 60_000;

/**
 * Resolves when the broker takes all processes for members and each partition has its owner. One that is to get nothing is
 * waited for as well: its joining later would cost the others a rebalance in the run.
 */
export async function untilJoined(
  kafka: Kafka,
  groupId: string,
  members: Pick<Members, 'lanes' | 'failed'>,
  { processes, partitions }: { readonly processes: number; readonly partitions: number },
): Promise<void> {
  const admin = kafka.admin();
  await admin.connect();
  try {
    const deadline = performance.now() + JOIN_WITHIN_MS;
    for (;;) {
      // There is no coordinator for it before the first has joined.
      const group = await admin.describeGroups([groupId]).then(
        ({ groups }) => groups[0],
        () => undefined,
      );
      if (group?.state === 'Stable' && group.members.length === processes && members.lanes() === partitions) return;
      if (performance.now() > deadline) {
        throw new Error(
          `${group?.members.length} of ${processes} processes have joined, with ${members.lanes()} lanes`,
        );
      }
      await Promise.race([sleep(POLL_MS), members.failed]);
    }
  } finally {
    await admin.disconnect();
  }
}
