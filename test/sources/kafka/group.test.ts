import { expect, test } from 'vitest';
import { systemClock } from '../../../src/ports/clock.ts';
import type { Member, TopicPartition } from '../../../src/sources/kafka/client.ts';
import { KafkaGroup } from '../../../src/sources/kafka/group.ts';
import { until } from '../../support/until.ts';

const never = new AbortController().signal;
const partition = (n: number): TopicPartition => ({ topic: 't', partition: n });

test.each(Array.from({ length: 12 }, (_, ticks) => ticks))(
  'what is settled %i ticks after the broker took a commit is committed too, without anything else to push it',
  async ticks => {
    const group = new KafkaGroup(
      { maxBuffered: 10, typeHeader: 'type', fromEarliest: true, consumer: 'pay', positioned: false },
      systemClock,
    );
    const committed = new Map<number, bigint>();
    let onFirst: (() => void) | undefined;
    const member: Member = {
      pause: () => undefined,
      resume: () => undefined,
      seek: () => undefined,
      leave: async () => undefined,
      inspect: () => Promise.reject(new Error('not asked here')),
      async commit(offsets) {
        for (const { partition: n, offset } of offsets) committed.set(n, offset);
        onFirst?.();
        onFirst = undefined;
      },
    };
    group.joined(member);
    group.assigned([partition(0), partition(1)]);
    const lanes = [(await group.nextLane(never))!, (await group.nextLane(never))!];
    const acked = await Promise.all(
      lanes.map(async (lane, n) => {
        const record = { offset: 0n, key: null, value: Buffer.from('{}'), timestampMs: 0, headers: {} };
        group.fetched({ ...partition(n), from: 0n, records: [record], next: 1n, end: 1n });
        const [delivery] = await lane.receive(1, never);
        return { delivery: delivery!, settle: 'ack' } as const;
      }),
    );
    onFirst = async () => {
      for (let i = 0; i < ticks; i++) await null;
      await lanes[1]!.settle([acked[1]!]);
    };
    await lanes[0]!.settle([acked[0]!]);
    await until('both are committed', () => committed.get(0) === 1n && committed.get(1) === 1n, 500);
  },
);

test('a lane that is about to go does not come back as another one behind the rebalance', async () => {
  const group = new KafkaGroup(
    { maxBuffered: 10, typeHeader: 'type', fromEarliest: true, consumer: 'pay', positioned: true },
    systemClock,
  );
  group.assigned([partition(0)]);
  const lane = (await group.nextLane(never))!;
  const revoked = group.revoked([partition(0)]);
  lane.log!.reopen();
  lane.ended!();
  await revoked;
  lane.log!.reopen();
  const none = new AbortController();
  const next = group.nextLane(none.signal);
  none.abort();
  expect(await next).toBeUndefined();
});
