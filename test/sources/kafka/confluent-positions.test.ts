import { expect, test } from 'vitest';
import type { InnerMessage } from '../../../src/sources/kafka/clients/confluent/client.ts';
import { Positions } from '../../../src/sources/kafka/clients/confluent/positions.ts';

const at = (partition: number) => ({ topic: 't', partition });

function message(offset: number, partition = 0): InnerMessage {
  return { ...at(partition), offset, key: null, value: null, timestamp: -1 };
}

function positions(next: bigint | undefined, ...partitions: readonly number[]) {
  const made = new Positions();
  for (const partition of partitions) made.add(at(partition), next);
  const fetches = (messages: readonly InnerMessage[], ...ends: readonly [partition: number, offset: number][]) =>
    made
      .fetchesOf(
        messages,
        ends.map(([partition, offset]) => ({ ...at(partition), offset })),
        () => undefined,
      )
      .map(({ partition, from, records, next: to }) => [partition, from, records.length, to]);
  return { made, fetches };
}

test('what the client passes over in silence is not missing: a batch begins where the last one ended', () => {
  const { fetches } = positions(10n, 0);
  expect(fetches([message(12), message(13)])).toEqual([[0, 10n, 2, 14n]]);
  expect(fetches([message(17)])).toEqual([[0, 14n, 1, 18n]]);
});

test('an end moves the place behind what nobody may read; one from before the last records does not', () => {
  const { fetches } = positions(10n, 0);
  expect(fetches([message(10)], [0, 10])).toEqual([[0, 10n, 1, 11n]]);
  expect(fetches([], [0, 15])).toEqual([[0, 11n, 0, 15n]]);
});

test('partitions of one batch are told apart, and one that is not ours is left out', () => {
  const { fetches } = positions(0n, 0, 1);
  expect(fetches([message(0, 0), message(0, 1), message(1, 0), message(5, 2)], [2, 9])).toEqual([
    [0, 0n, 2, 2n],
    [1, 0n, 1, 1n],
  ]);
});

test('a partition of which nothing is known begins with what comes first', () => {
  expect(positions(undefined, 0).fetches([message(7)])).toEqual([[0, 7n, 1, 8n]]);
  expect(positions(undefined, 0).fetches([], [0, 7])).toEqual([[0, 7n, 0, 7n]]);
});

test('offsets that begin again below are of another log, and are said to be', () => {
  expect(positions(20n, 0).fetches([message(0), message(1)])).toEqual([[0, 0n, 2, 2n]]);
});

test('while a seek is on its way nothing counts, neither records nor an end', () => {
  const { made, fetches } = positions(20n, 0);
  made.hold(at(0), 12n);
  expect(fetches([message(20)], [0, 21])).toEqual([]);
  made.sought(at(0));
  expect(fetches([message(13)])).toEqual([[0, 12n, 1, 14n]]);
});

test('an offset that a double cannot hold exactly is refused, and not taken for another', () => {
  expect(() => positions(0n, 0).fetches([message(2 ** 53)])).toThrow(
    expect.objectContaining({ code: 'NT_SOURCE_DOWN' }),
  );
});
