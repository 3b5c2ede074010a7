import { inspect } from 'node:util';
import * as kafka from '@platformatic/kafka';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Fetched, JoinOptions, Member, TopicPartition } from '../../../src/sources/kafka/client.ts';
import { GroupOffsets } from '../../../src/sources/kafka/clients/platformatic/offsets.ts';
import { Wire } from '../../../src/sources/kafka/clients/platformatic/wire.ts';
import { platformatic } from '../../../src/sources/kafka/index.ts';
import { brokers } from '../../support/kafka.ts';
import { freshTopic, type TestTopic } from '../../support/kafka-topics.ts';
import { until } from '../../support/until.ts';

const WITHIN_MS = 20_000;
const OPTIONS = {
  clientId: 'test',
  heartbeatInterval: 200,
  sessionTimeout: 6_000,
  metadataMaxAge: 500,
  retryDelay: 100,
};

let topic: TestTopic;
const members: Member[] = [];

beforeEach(async () => {
  topic = await freshTopic(2);
});
afterEach(async () => {
  for (const member of members.splice(0)) await member.leave();
  await topic.close();
});

/** What a member has heard. */
interface Heard {
  readonly changes: string[];
  readonly fetches: Fetched[];
  values(partition: number): string[];
}

interface Joining extends Partial<JoinOptions> {
  readonly options?: object;
  assigned?(): void;
  revoked?(): Promise<void>;
}

async function join({
  options,
  assigned,
  revoked,
  ...joining
}: Joining = {}): Promise<{ member: Member; heard: Heard }> {
  const heard: Heard = {
    changes: [],
    fetches: [],
    values: of =>
      heard.fetches
        .filter(({ partition }) => partition === of)
        .flatMap(({ records }) => records.map(({ value }) => String(value))),
  };
  const client = platformatic(kafka, { ...OPTIONS, bootstrapBrokers: [brokers()], ...options });
  const member = await client.join(
    { groupId: topic.group, topics: [topic.name], from: 'earliest', ...joining },
    {
      assigned: partitions => {
        heard.changes.push(`assigned ${numbers(partitions)}`);
        assigned?.();
      },
      added: partitions => heard.changes.push(`added ${numbers(partitions)}`),
      lost: partitions => heard.changes.push(`lost ${numbers(partitions)}`),
      revoked: async partitions => {
        heard.changes.push(`revoked ${numbers(partitions)}`);
        await revoked?.();
      },
      fetched: fetch => heard.fetches.push(fetch),
      failed: error => heard.changes.push(`failed ${error}`),
    },
  );
  members.push(member);
  return { member, heard };
}

const numbers = (partitions: readonly TopicPartition[] = []) => partitions.map(({ partition }) => partition).join();
const at = (partition: number): TopicPartition => ({ topic: topic.name, partition });
const record = (value: string, partition = 0) => ({ value, partition });

async function gone(member: Member): Promise<void> {
  members.splice(members.indexOf(member), 1);
  await member.leave();
}

test('an aborted transaction over several fetches: none of its records, no gap between fetches, and the end is reached', async () => {
  const large = 'x'.repeat(2_000);
  await topic.send([record('a')]);
  await topic.inTransaction(
    [0, 1, 2].map(() => record(large)),
    'abort',
  );
  await topic.inTransaction([record('b')], 'commit');
  await topic.send([record('c')]);
  const { heard } = await join({ options: { maxBytesPerPartition: 1_000 } });
  // a, three aborted ones with their marker, b with its marker, c.
  await until('the end is reached', () => heard.fetches.some(isAt(0, 8n)), WITHIN_MS);
  expect(heard.values(0)).toEqual(['a', 'b', 'c']);
  const spans = heard.fetches.filter(({ partition }) => partition === 0);
  expect(spans.length).toBeGreaterThan(2);
  expect(spans.map(({ from }) => from)).toEqual([0n, ...spans.slice(0, -1).map(({ next }) => next)]);
});

test('a paused partition rests while another flows; it goes on where it stood, or where it was sent', async () => {
  const { member, heard } = await join();
  await until('it has its partitions', () => heard.changes.includes('assigned 0,1'), WITHIN_MS);
  member.pause(at(0));
  await topic.send([record('a'), record('b'), record('c', 1)]);
  await until('the other one flows', () => heard.values(1).length === 1, WITHIN_MS);
  await topic.send([record('d', 1)]);
  await until('and goes on', () => heard.values(1).length === 2, WITHIN_MS);
  expect(heard.values(0)).toEqual([]);
  member.resume(at(0));
  await until('the paused one goes on', () => heard.values(0).length === 2, WITHIN_MS);
  member.seek(at(0), 1n);
  await until('it was sent back', () => heard.values(0).length === 3, WITHIN_MS);
  expect(heard.values(0)).toEqual(['a', 'b', 'b']);
});

test('a partition that is paused as soon as it is assigned is not fetched, and begins where it is sent', async () => {
  await topic.send([record('a'), record('b'), record('c', 1)]);
  const { member, heard } = await join({ assigned: () => member.pause(at(0)) });
  await until('the other one flows', () => heard.values(1).length === 1, WITHIN_MS);
  member.seek(at(0), 1n);
  await topic.send([record('d', 1)]);
  await until('and goes on', () => heard.values(1).length === 2, WITHIN_MS);
  expect(heard.fetches.some(({ partition }) => partition === 0)).toBe(false);
  member.resume(at(0));
  await until('it begins', () => heard.values(0).length === 1, WITHIN_MS);
  expect(heard.values(0)).toEqual(['b']);
});

test('nothing is committed that nobody commits: not when it is fetched, and not when the member leaves', async () => {
  await topic.send([record('a'), record('b', 1)]);
  const { member, heard } = await join();
  await until('all is read', () => heard.values(0).length + heard.values(1).length === 2, WITHIN_MS);
  await gone(member);
  expect(await topic.committed()).toEqual([-1, -1]);
});

test("from 'latest' is for partitions without an offset; the others begin at theirs, which keeps what was written beside it", async () => {
  await topic.send([record('a'), record('b'), record('c'), record('d', 1)]);
  const first = await join();
  await until('it has its partitions', () => first.heard.changes.length > 0, WITHIN_MS);
  expect(await first.member.inspect(at(0))).toMatchObject({
    earliest: 0n,
    end: 3n,
    partitions: 2,
    committed: undefined,
  });
  await first.member.commit([{ ...at(0), offset: 2n, metadata: 'mark é' }]);
  const state = await first.member.inspect(at(0));
  expect(state.committed).toEqual({ offset: 2n, metadata: 'mark é' });
  expect(state.topicId).toMatch(/^[0-9a-f-]{36}$/);
  expect(state.clusterId).not.toBe('');
  await gone(first.member);
  const { heard } = await join({ from: 'latest' });
  await until('it stands at the end of the other one', () => heard.fetches.some(isAt(1, 1n)), WITHIN_MS);
  await topic.send([record('e'), record('f', 1)]);
  await until('all is read', () => heard.values(0).length === 2 && heard.values(1).length === 1, WITHIN_MS);
  expect([heard.values(0), heard.values(1)]).toEqual([['c', 'e'], ['f']]);
});

const isAt = (partition: number, offset: bigint) => (fetch: Fetched) =>
  fetch.partition === partition && fetch.next === offset;

test.each([
  ['roundrobin', 'assigned 0,1', /^revoked 0,1$/],
  ['cooperative-sticky', 'assigned 0,1', /^revoked [01]$/],
])(
  '%s: the group waits until what is taken away is settled, and the next owner begins behind it',
  async (name, all, taken) => {
    const options = { protocols: [{ name, version: 1 }] };
    await topic.send([record('a'), record('b'), record('c', 1), record('d', 1)]);
    const settled = Promise.withResolvers<void>();
    const first = await join({
      options,
      revoked: async () => {
        await settled.promise;
        await first.member.commit([
          { ...at(0), offset: 1n },
          { ...at(1), offset: 1n },
        ]);
      },
    });
    await until('the first has all', () => first.heard.changes.includes(all), WITHIN_MS);
    const second = await join({ options });
    await until('it is to give some away', () => first.heard.changes.some(change => taken.test(change)), WITHIN_MS);
    expect(second.heard.changes.filter(change => /\d/.test(change))).toEqual([]);
    settled.resolve();
    await until('both have one', () => second.heard.fetches.length > 0, WITHIN_MS);
    const [of] = second.heard.fetches;
    expect(of).toMatchObject({ from: 1n });
    expect(second.heard.values(of!.partition)).toEqual([of!.partition === 0 ? 'b' : 'd']);
  },
);

test('a commit of a member that has no partitions is refused, and none is made up', async () => {
  const { member } = await join();
  await expect(member.commit([{ ...at(0), offset: 1n }])).rejects.toThrow('no partition is ours');
  expect(await topic.committed()).toEqual([-1, -1]);
});

test('a commit as somebody who is no longer a member is refused, and is not sent again as somebody else', async () => {
  const { member, heard } = await join();
  await until('it has its partitions', () => heard.changes.includes('assigned 0,1'), WITHIN_MS);
  await member.commit([{ ...at(0), offset: 5n }]);
  const wire = new Wire(kafka, { ...OPTIONS, bootstrapBrokers: [brokers()], groupId: topic.group });
  const asleep = new GroupOffsets(wire, topic.group, undefined);
  const old = asleep.commit({ memberId: 'one that slept', generationId: 1 }, [{ ...at(0), offset: 3n }]);
  await expect(old).rejects.toMatchObject({ code: 'PLT_KFK_RESPONSE', errors: [{ apiId: 'UNKNOWN_MEMBER_ID' }] });
  await wire.consumer.close(true);
  expect(await topic.committed()).toEqual([5, -1]);
});

test('a topic that is made again and has grown further than before: another lane, from its first record', async () => {
  await topic.send([record('a')]);
  const { heard } = await join();
  await until('it is read', () => heard.values(0).length === 1, WITHIN_MS);
  await topic.recreate();
  await topic.send([record('b'), record('c'), record('d')]);
  await until('the new ones are read', () => heard.values(0).length === 4, WITHIN_MS);
  expect(heard.values(0)).toEqual(['a', 'b', 'c', 'd']);
  expect(heard.changes.slice(-2)).toEqual(['lost 0,1', 'added 0,1']);
});

test('options that it refuses are NT_CONFIG, brokers that are not there NT_SOURCE_DOWN; neither shows a password', async () => {
  const sasl = { mechanism: 'PLAIN' as const, username: 'u', password: 'hunter2' };
  const joining = { groupId: topic.group, topics: [topic.name], from: 'earliest' as const };
  const refused = (options: object) =>
    platformatic(kafka, { ...OPTIONS, bootstrapBrokers: ['127.0.0.1:1'], sasl, ...options })
      .join(joining, {} as never)
      .catch((error: unknown) => error);
  const errors = [
    await refused({ sessionTimeout: -1 }),
    await refused({ groupProtocol: 'consumer' }),
    await refused({}),
  ];
  expect(errors).toMatchObject([{ code: 'NT_CONFIG' }, { code: 'NT_CONFIG' }, { code: 'NT_SOURCE_DOWN' }]);
  expect(inspect(errors, { depth: 20, showHidden: true })).not.toContain('hunter2');
});
