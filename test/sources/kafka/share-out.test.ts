import { expect, test } from 'vitest';
import { shareOut } from '../../../src/sources/kafka/clients/share-out.ts';

const plain = (assigned: ReturnType<typeof shareOut>) =>
  Object.fromEntries([...assigned].map(([id, topics]) => [id, Object.fromEntries(topics)]));

test('each topic goes to the members that read it, in turn, whoever is asked and in whatever order', () => {
  const counts: Record<string, number> = { t: 3, u: 2, v: 1 };
  const assign = (members: readonly (readonly [string, readonly string[]])[]) =>
    plain(shareOut(new Map(members), topic => counts[topic] ?? 0));
  const members = [
    ['b', ['t', 'u']],
    ['a', ['t']],
    ['c', ['u', 'v']],
  ] as const;
  expect(assign(members)).toEqual({ a: { t: [0, 2] }, b: { t: [1], u: [1] }, c: { u: [0], v: [0] } });
  expect(assign(members.toReversed())).toEqual(assign(members));
});

test('a topic that is not there, and a member that reads nothing, get nothing', () => {
  expect(
    plain(
      shareOut(
        new Map([
          ['a', ['gone']],
          ['b', []],
        ]),
        () => 0,
      ),
    ),
  ).toEqual({});
});
