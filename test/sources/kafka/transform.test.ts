import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { isNevertwiceError, type Points, Reject } from '../../../src/index.ts';
import {
  type KafkaTransform,
  type KafkaTransformOptions,
  kafkaTransform,
  type TransformMessage,
} from '../../../src/sources/kafka/index.ts';
import { forEachKafkaClient } from '../../support/each-kafka-client.ts';
import { clientNamed } from '../../support/kafka-clients.ts';
import { type ReadRecord, readCommitted } from '../../support/kafka-reader.ts';
import { freshTopic, type TestTopic } from '../../support/kafka-topics.ts';
import { endsWithin, until } from '../../support/until.ts';

vi.setConfig({ testTimeout: 60_000 });
const WITHIN_MS = 30_000;

let input: TestTopic;
let output: TestTopic;
let dead: TestTopic | undefined;
const running: { transform: KafkaTransform; done: Promise<unknown> }[] = [];

beforeEach(async () => {
  [input, output] = await Promise.all([freshTopic(), freshTopic()]);
});
afterEach(async () => {
  for (const { transform, done } of running.splice(0)) {
    await transform.stop({ withinMs: 2_000 });
    await done.catch(() => undefined);
  }
  for (const topic of [input, output, dead]) await topic?.close();
  dead = undefined;
});

const numbered = (n: number, from = 0) => Array.from({ length: n }, (_, i) => ({ value: String(from + i) }));
const values = async (topic: TestTopic) => (await readCommitted(topic)).map(({ value }) => value);
const committed = (offset: number) => async () => (await input.committed())[0] === offset;

const header = (headers: ReadRecord['headers'], wanted: string) => headers.find(([name]) => name === wanted)?.[1];

type Message = TransformMessage<any>;

forEachKafkaClient(client => {
  function start(options: Partial<KafkaTransformOptions<any>> = {}, points?: Points) {
    const transform = kafkaTransform<any>({
      client: client.make(undefined, { sessionTimeoutMs: 6_000, heartbeatMs: 300 }),
      topics: [input.name],
      groupId: input.group,
      retries: { minMs: 5, maxMs: 20 },
      ...('transformBatch' in options ? {} : { transform: ({ body }: Message) => out(body) }),
      ...options,
    } as KafkaTransformOptions<any>);
    const done = transform.run(points === undefined ? {} : { points });
    done.catch(() => undefined);
    running.push({ transform, done });
    return { transform, done };
  }
  const out = (body: unknown) => ({ topic: output.name, value: `out ${body}` });

  test('outputs and the next offset to read are committed together, and go on after a stop', async () => {
    await input.send(numbered(20));
    const first = start({ maxBatch: 7 });
    await until('all is committed', committed(20), WITHIN_MS);
    await first.transform.stop();
    expect(await first.done).toEqual({ processed: 20, produced: 20, deadLetters: 0, failed: 0, fenced: 0 });
    await input.send(numbered(5, 20));
    const second = start();
    await until('the rest is committed', committed(25), WITHIN_MS);
    await second.transform.stop();
    expect(await second.done).toMatchObject({ processed: 5 });
    expect(await values(output)).toEqual(numbered(25).map(({ value }) => `out ${value}`));
  });

  test('a record becomes none, one or several, with key, headers and partition as they were returned', async () => {
    await output.addPartitions(3);
    await input.send(numbered(3));
    start({
      transform: ({ body, headers, offset, topic, partition }: Message) => {
        if (body === 0) return undefined;
        if (body === 1) return { topic: output.name, key: null, value: null, partition: 2 };
        const read = `${topic === input.name}/${partition}/${offset}/${headers.get('none')}`;
        return [
          {
            topic: output.name,
            key: Buffer.from('k'),
            value: read,
            headers: { a: ['1', '2'], b: Buffer.from('3') },
            partition: 1,
          },
          { topic: output.name, key: 'k', value: 'second', partition: 1 },
        ];
      },
    });
    await until('all is committed', committed(3), WITHIN_MS);
    const records = (await readCommitted(output)).toSorted((a, b) => a.partition - b.partition || a.offset - b.offset);
    expect(records).toMatchObject([
      { partition: 1, key: 'k', value: 'true/0/2/undefined' },
      { partition: 1, key: 'k', value: 'second' },
      { partition: 2, key: null, value: null },
    ]);
    expect(records[0]!.headers).toEqual([
      ['a', '1'],
      ['a', '2'],
      ['b', '3'],
    ]);
  });

  test('a transform that fails is tried again alone; what was before it is committed meanwhile', async () => {
    await input.send(numbered(10));
    const attempts: number[] = [];
    const { transform } = start({
      transform: ({ body, attempt }: Message) => {
        if (body !== 6) return out(body);
        attempts.push(attempt);
        if (attempt < 4) throw new Error('not yet');
        return out(body);
      },
    });
    await until('all is committed', committed(10), WITHIN_MS);
    expect(attempts).toEqual([1, 2, 3, 4]);
    expect(transform.summary).toMatchObject({ processed: 10, failed: 3, deadLetters: 0 });
    expect(await values(output)).toEqual(numbered(10).map(({ value }) => `out ${value}`));
  });

  test('the record that makes a batch fail is found by halves; the others are transformed, in order', async () => {
    dead = await freshTopic();
    await input.send(numbered(20));
    const { transform } = start({
      deadLetterTopic: dead.name,
      retries: { attempts: 2, minMs: 1, maxMs: 2 },
      transformBatch: (messages: readonly Message[]) => {
        if (messages.some(({ body }) => body === 13)) throw new Error('13 again');
        return messages.map(({ body }) => out(body));
      },
    });
    await until('all is committed', committed(20), WITHIN_MS);
    await transform.stop();
    expect(transform.summary).toMatchObject({ processed: 19, produced: 19, deadLetters: 1 });
    expect(await values(output)).toEqual([...numbered(13), ...numbered(6, 14)].map(({ value }) => `out ${value}`));
    expect(await values(dead)).toEqual(['13']);
  });

  test('with a deadLetterTopic: rejected, out of attempts or undecodable goes there as it came, with the reason', async () => {
    dead = await freshTopic();
    const key = Buffer.from([1, 255]);
    await input.send([
      { value: '0', key, headers: { who: ['a', Buffer.from([255])] } },
      { value: '{ no JSON' },
      { value: '2' },
      { value: null, key: 'gone' },
    ]);
    const { transform } = start({
      deadLetterTopic: dead.name,
      retries: { attempts: 3, minMs: 1, maxMs: 2 },
      transform: ({ body }: Message) => {
        if (body === 0) throw new Reject('no such account');
        if (body === null) throw new Error('fails every time');
        return out(body);
      },
    });
    await until('all is committed', committed(4), WITHIN_MS);
    await transform.stop();
    expect(transform.summary).toEqual({ processed: 1, produced: 1, deadLetters: 3, failed: 4, fenced: 0 });
    expect(await values(output)).toEqual(['out 2']);
    const letters = await readCommitted(dead);
    const about = letters.map(({ value, headers }) => [
      value,
      ...['kind', 'reason', 'position', 'attempts'].map(name => header(headers, `nevertwice-${name}`)),
    ]);
    const at = `${input.name}/0`;
    expect(about).toEqual([
      ['0', 'rejected', 'NT_REJECTED: no such account', `${at}/0`, '1'],
      ['{ no JSON', 'bad-message', 'NT_BAD_MESSAGE: the body cannot be decoded', `${at}/1`, '0'],
      [null, 'attempts', 'fails every time', `${at}/3`, '3'],
    ]);
    expect(letters[0]!.key).toBe(key.toString());
    expect(letters[0]!.headers.slice(0, 2)).toEqual([
      ['who', 'a'],
      ['who', '\xff'],
    ]);
    expect(header(letters[0]!.headers, 'nevertwice-time')).toMatch(/^\d{4}-\d\d-\d\dT.*Z$/);
  });

  test.each([
    ['rejected', '1', 'NT_REJECTED'],
    ['undecodable', '{', 'NT_BAD_MESSAGE'],
  ])(
    'without a deadLetterTopic, run rejects at a record that is %s; it is not skipped, and what was before it is committed',
    async (_, value, code) => {
      await input.send([{ value: '0' }, { value }, { value: '2' }]);
      const { done } = start({
        transform: ({ body }: Message) => {
          if (body === 1) throw new Reject('never');
          return out(body);
        },
      });
      const error = await endsWithin(
        WITHIN_MS,
        'the run ends',
        done.then(
          () => undefined,
          error => error,
        ),
      );
      expect(isNevertwiceError(error, code as 'NT_REJECTED')).toBe(true);
      expect(error.message).toContain(`${input.name}/0/1`);
      expect(await input.committed()).toEqual([1]);
      expect(await values(output)).toEqual(['out 0']);
    },
  );

  test('outputs that the broker does not take are found by halves, and set aside; no partition takes the place of another', async () => {
    dead = await freshTopic();
    await input.send(numbered(6));
    const { transform } = start({
      deadLetterTopic: dead.name,
      retries: { attempts: 2, minMs: 1, maxMs: 2 },
      transform: ({ body }: Message) => {
        if (body === 2) return { ...out(body), value: Buffer.alloc(3_000_000) };
        if (body === 4) return { ...out(body), partition: 7 };
        return out(body);
      },
    });
    await until('all is committed', committed(6), WITHIN_MS);
    await transform.stop();
    expect(await values(output)).toEqual(['out 0', 'out 1', 'out 3', 'out 5']);
    expect(await values(dead)).toEqual(['2', '4']);
    expect(transform.summary).toMatchObject({ processed: 4, deadLetters: 2, fenced: 0 });
  });

  test('a batch whose outputs together are larger than one request is one transaction all the same', async () => {
    await input.send(numbered(8));
    const { transform } = start({
      transformBatch: (messages: readonly Message[]) =>
        messages.map(({ body }) => ({ ...out(body), headers: { fill: Buffer.alloc(400_000) } })),
    });
    await until('all is committed', committed(8), WITHIN_MS);
    expect(transform.summary).toMatchObject({ processed: 8, failed: 0 });
    expect(await values(output)).toHaveLength(8);
  });

  test('the member commits nothing by itself: with a transaction that is not committed, the group has no offset, also after it left', async () => {
    await input.inTransaction([{ value: 'never read' }], 'abort');
    await input.send(numbered(3));
    const reached = Promise.withResolvers<void>();
    const crash = Promise.withResolvers<never>();
    const { done } = start(
      {},
      {
        reach: ({ step, edge }) => {
          if (step !== 'record' || edge !== 'before') return;
          reached.resolve();
          return crash.promise;
        },
      },
    );
    await endsWithin(WITHIN_MS, 'the outputs are written', reached.promise);
    expect(await input.committed()).toEqual([-1]);
    crash.reject(new Error('crashed here'));
    await expect(endsWithin(WITHIN_MS, 'the run ends', done)).rejects.toThrow('crashed here');
    expect(await input.committed()).toEqual([-1]);
    expect(await values(output)).toEqual([]);
  });

  test('C59: the owner before commits in the last moment before it is fenced: what it did is not done again', async () => {
    await input.send(numbered(3));
    const zombie = await clientNamed('kafkajs').make().producer!({
      transactionalId: `${input.group}/${input.name}/0`,
      groupId: input.group,
      member: undefined as never,
    });
    const made = client.make(undefined, { sessionTimeoutMs: 6_000, heartbeatMs: 300 });
    start({
      client: {
        ...made,
        async producer(options) {
          await zombie.transact({
            outputs: [{ topic: output.name, partition: 0, key: null, value: Buffer.from('out 0'), headers: [] }],
            offset: { topic: input.name, partition: 0, offset: 1n },
            produced: async () => undefined,
          });
          return made.producer!(options);
        },
      },
    });
    await until('all is committed', committed(3), WITHIN_MS);
    await zombie.close();
    expect(await values(output)).toEqual(['out 0', 'out 1', 'out 2']);
  });

  test('a stop with a deadline does not wait for a transform that hangs, and names what was abandoned', async () => {
    await input.send(numbered(1));
    const called = Promise.withResolvers<AbortSignal>();
    const { transform, done } = start({
      transform: (_: Message, { signal }: { signal: AbortSignal }) => {
        called.resolve(signal);
        return new Promise<never>(() => undefined);
      },
    });
    const signal = await called.promise;
    expect(await transform.stop({ withinMs: 50 })).toEqual({ abandoned: [`${input.name}/0/0`] });
    expect(signal.aborted).toBe(true);
    expect(await done).toMatchObject({ processed: 0 });
    expect(await input.committed()).toEqual([-1]);
  });
});

describe('options', () => {
  const client = { name: 'some client', join: () => Promise.reject(new Error('not called')) };

  test('a client whose wrapper has no transactions is refused by its name', () => {
    const options = { client, topics: ['t'], groupId: 'g', transform: () => undefined };
    expect(() => kafkaTransform(options)).toThrow(/some client/);
  });

  test.each([
    ['no topics', { topics: [] }],
    ['a dead-letter topic that is read', { deadLetterTopic: 't' }],
    ['both forms', { transformBatch: () => undefined }],
    ['no form', { transform: undefined }],
  ])('%s: NT_CONFIG', (_, wrong) => {
    const options = {
      client: { ...client, producer: () => Promise.reject(new Error('not called')) },
      topics: ['t'],
      groupId: 'g',
      transform: () => undefined,
      ...wrong,
    } as unknown as KafkaTransformOptions;
    expect(() => kafkaTransform(options)).toThrow(expect.objectContaining({ code: 'NT_CONFIG' }));
  });
});
