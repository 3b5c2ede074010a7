import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  bodyPath,
  cloudEvent,
  contentHash,
  createConsumer,
  createInbox,
  header,
  type Identity,
  lowerCaseUuid,
  type Normaliser,
  nfc,
} from '../../src/index.ts';
import { memorySource } from '../../src/memory.ts';
import { deliverySource, type Given } from './deliveries.ts';
import { type AnyStore, allStores, freshName } from './stores.ts';

const P = 'processed';
const D = 'duplicate';
const X = 'dead-lettered';

interface Row {
  readonly title: string;
  readonly identity?: Identity;
  readonly normalise?: Normaliser;
  readonly fingerprint?: false;
  readonly deliveries: readonly Given[];
  readonly expected: readonly string[];
  /** Ids that the handler sees, in order. */
  readonly handled: readonly string[];
  /** Reasons of the dead letters, in order. */
  readonly reasons?: readonly RegExp[];
}

const ids = (...list: readonly unknown[]): Given[] => list.map(id => ({ id }));
const random = (length: number) => randomBytes(length).toString('base64url').slice(0, length);
const long = Object.fromEntries([255, 256, 2048, 3000, 8192].map(length => [length, random(length)]));
const near = random(2999);
const lower = '3f2b8c1e-0000-4000-8000-00000000abcd';
const uuids = [lower, lower.toUpperCase(), `{${lower}}`, 'evt_123'];
const composed = ['caf\u00e9', 'cafe\u0301', '\u212b', '\u00c5'];
const event = (source: string, id: string): Given => ({
  headers: { ce_id: id, ce_source: source, ce_specversion: '1.0' },
});
const order = (amount: number) => JSON.stringify({ customer: 'c1', amount });

const rows: readonly Row[] = [
  {
    title: 'C27: no two messages without an id are ever one, and the next valid one is processed',
    deliveries: [
      ...[undefined, '', '   ', '\t\n', null, {}, [], Number.NaN].flatMap((id, i) => [
        { headers: { 'message-id': id }, body: { n: 2 * i } },
        { headers: { 'message-id': id }, body: { n: 2 * i + 1 } },
      ]),
      { headers: {}, body: { n: 98 } },
      { headers: {}, body: { n: 99 } },
      { id: 'good' },
    ],
    expected: [...Array<string>(18).fill(X), P],
    handled: ['good'],
    reasons: [/no value/, /empty/, /empty/, /empty/, /no value/, /wrong type/, /no value/, /not an integer/]
      .flatMap(r => [r, r])
      .concat(/no value/, /no value/),
  },
  {
    title: 'C27: the same for a path of the body',
    identity: bodyPath('id'),
    deliveries: [
      ...[undefined, '', '   ', null, {}, [], Number.NaN, true, 'good'].flatMap(id => ({ body: { id } })),
      { body: 'no object' },
    ],
    expected: [...Array<string>(8).fill(X), P, X],
    handled: ['good'],
  },
  {
    title: 'C29: a repeated header is ambiguous in every client’s shape, unless its values are the same',
    deliveries: [
      { headers: { 'message-id': [Buffer.from('a'), Buffer.from('b')] } },
      { headers: { 'message-id': Buffer.from('a,b') } },
      { headers: [{ 'message-id': Buffer.from('a') }, { 'message-id': Buffer.from('b') }] },
      { headers: { 'message-id': ['a', 'a'] } },
      {
        headers: [
          ['Message-ID', 'a'],
          ['message-id', Buffer.from('a')],
        ],
      },
    ],
    expected: [X, P, X, P, D],
    handled: ['a,b', 'a'],
    reasons: [/several different values/, /several different values/],
  },
  {
    title: 'C31: a Buffer, a string and a Uint8Array of one text are one id',
    deliveries: ids(Buffer.from('m-1'), 'm-1', new Uint8Array(Buffer.from('m-1'))),
    expected: [P, D, D],
    handled: ['m-1'],
  },
  {
    title:
      'C32: numbers that JSON.parse rounded are refused; 7, 7.0 and "7" are one id, and so are a bigint and its text',
    identity: bodyPath('id'),
    fingerprint: false,
    deliveries: [
      ...['15793596808644608', '15793596808644609', '7', '7.0', '"7"', '1.5'].map(id => ({ value: `{"id":${id}}` })),
      { body: { id: 15793596808644609n } },
      { value: '{"id":"15793596808644609"}' },
      { value: '{"id":"15793596808644608"}' },
    ],
    expected: [X, X, P, D, D, X, P, D, P],
    handled: ['7', '15793596808644609', '15793596808644608'],
    reasons: [/2\^53.*as a string/, /2\^53.*as a string/, /not an integer/],
  },
  {
    title: 'C34: ids of up to 8,192 bytes are ids in full; a longer one is refused with its length and the limit',
    deliveries: [
      ...ids(...Object.values(long), `${near}a`, `${near}b`, 'a'.repeat(3000)),
      ...ids(random(8193), 'x'.repeat(100_000)),
      ...ids('a'.repeat(3000), `${near}b`, long[256], 'a'.repeat(2999)),
    ],
    expected: [...Array<string>(8).fill(P), X, X, D, D, D, P],
    handled: [...Object.values(long), `${near}a`, `${near}b`, 'a'.repeat(3000), 'a'.repeat(2999)],
    reasons: [/8193 bytes.*limit is 8192/, /100000 bytes.*limit is 8192/],
  },
  {
    title: 'C37: ids that differ in case, in a trailing space or in an accent are different',
    deliveries: ids('evt_aB', 'evt_Ab', 'x', 'x ', 'cafe', 'caf\u00e9', 'x ', 'evt_Ab'),
    expected: [P, P, P, P, P, P, D, D],
    handled: ['evt_aB', 'evt_Ab', 'x', 'x ', 'cafe', 'caf\u00e9'],
  },
  {
    title: 'C38: ids that look like numbers stay texts',
    deliveries: ids('007', '7', '1e3', '1000', '0x10', '16', '1.0', '1', '007'),
    expected: [P, P, P, P, P, P, P, P, D],
    handled: ['007', '7', '1e3', '1000', '0x10', '16', '1.0', '1'],
  },
  {
    title: 'C39: spellings of a UUID are different ids by default, and other ids are as good',
    deliveries: ids(...uuids),
    expected: [P, P, P, P],
    handled: uuids,
  },
  {
    title: 'C39: with lowerCaseUuid they are one',
    normalise: lowerCaseUuid,
    deliveries: ids(...uuids, 'EVT_123'),
    expected: [P, D, D, P, P],
    handled: [lower, 'evt_123', 'EVT_123'],
  },
  {
    title: 'C40: composed and decomposed spellings are different ids by default',
    deliveries: ids(...composed),
    expected: [P, P, P, P],
    handled: composed,
  },
  {
    title: 'C40: with nfc they are one',
    normalise: nfc,
    deliveries: ids(...composed),
    expected: [P, D, P, D],
    handled: ['caf\u00e9', '\u00c5'],
  },
  {
    title: 'C41: a CloudEvent is its source and id, joined without ambiguity; without a source it is refused',
    identity: cloudEvent(),
    deliveries: [
      event('/orders', '1'),
      event('/billing', '1'),
      event('a', 'b:c'),
      event('a:b', 'c'),
      event('a|b', 'c'),
      event('a', 'b|c'),
      event('a%7cb', 'c'),
      { headers: { ce_id: '1' } },
      { body: { specversion: '1.0', id: '1' } },
      { body: { specversion: '1.0', id: '1', source: '/shop' } },
      { headers: { ce_id: '1', ce_source: '/orders' }, body: { specversion: '1.0', id: '2', source: '/orders' } },
      event('/orders', '1'),
    ],
    expected: [P, P, P, P, P, P, P, X, X, P, X, D],
    handled: ['/orders|1', '/billing|1', 'a|b:c', 'a:b|c', 'a%7cb|c', 'a|b%7cc', 'a%257cb|c', '/shop|1'].map(
      id => `p1|${id}`,
    ),
    reasons: [/source has no value/, /source has no value/, /several different values/],
  },
  {
    title: 'C46: two orders with equal bodies are two',
    deliveries: [
      { id: 'o1', value: order(250) },
      { id: 'o2', value: order(250) },
    ],
    expected: [P, P],
    handled: ['o1', 'o2'],
  },
];

describe.each(allStores)('$name', ({ create }) => {
  let s: AnyStore;
  let other: AnyStore['store'];
  beforeAll(async () => {
    s = await create();
    other = s.another();
  });
  afterAll(() => s.drop());

  async function consume(
    row: Omit<Row, 'title' | 'expected' | 'handled'>,
    name: string,
    options: { maxBatch?: number; store?: AnyStore['store'] } = {},
  ) {
    const { deliveries, reasons: _, ...identified } = row;
    const source = deliverySource(deliveries);
    const handled: string[] = [];
    const wallet = await s.wallet();
    const consumer = createConsumer({
      ...identified,
      name,
      store: s.store,
      ...options,
      handle: async (message, context) => {
        await wallet.credit(context, 500);
        handled.push(message.id);
      },
    });
    const summary = await consumer.run({ source });
    expect(await wallet.balance()).toBe(500 * handled.length);
    return { outcomes: source.outcomes, handled, summary };
  }

  describe.each([{ maxBatch: 500 }, { maxBatch: 1 }])('batches of up to $maxBatch', ({ maxBatch }) => {
    test.each(rows)('$title', async row => {
      const name = freshName();
      const first = await consume(row, name, { maxBatch });
      expect(first.outcomes).toEqual(row.expected);
      expect(first.handled).toEqual(row.handled);
      expect(first.summary).toMatchObject({ failed: 0, conflicts: 0 });
      const letters = await s.deadLetters(name);
      expect(letters.map(letter => letter.kind)).toEqual(
        row.expected.filter(verdict => verdict === X).map(() => 'bad-id'),
      );
      for (const [i, reason] of (row.reasons ?? []).entries()) expect(letters[i]!.reason).toMatch(reason);

      if (maxBatch === 1) return;
      // Another process gets everything once more: nothing is handled, and no dead letter is added.
      const again = await consume(row, name, { store: other });
      expect(again.outcomes).toEqual(row.expected.map(verdict => (verdict === P ? D : verdict)));
      expect(again.handled).toEqual([]);
      expect(await s.deadLetters(name)).toEqual(letters);
    });
  });

  test('C33: offset 10 has a NUL in its id: parked at once, and offset 11 is processed', async () => {
    const name = freshName();
    const messages = Array.from({ length: 12 }, (_, i) => ({
      id: i === 10 ? 'a\0b' : `m${i}`,
      body: { text: 'a\0b' },
    }));
    const seen: string[] = [];
    const consumer = createConsumer({ name, store: s.store, handle: message => void seen.push(message.id) });
    const summary = await consumer.run({ source: memorySource(messages) });
    expect(summary).toEqual({ processed: 11, duplicates: 0, conflicts: 0, deadLetters: 1, failed: 0 });
    expect(seen).toEqual(messages.filter((_, i) => i !== 10).map(m => m.id));
    expect(await s.deadLetters(name)).toEqual([
      {
        id: undefined,
        kind: 'bad-id',
        reason: expect.stringContaining('NUL'),
        attempts: 0,
        position: 'memory/0/10',
        payload: '{"text":"a\\u0000b"}',
      },
    ]);
  });

  test('C43: another topic, lane and position are still the same messages', async () => {
    const name = freshName();
    const wallet = await s.wallet();
    const consumer = createConsumer({ name, store: s.store, handle: (_, context) => wallet.credit(context, 500) });
    for (const [lane, topic, expected] of [
      ['q1/0', 'q1', P],
      ['q1-v2/7', 'q1-v2', D],
    ] as const) {
      const source = deliverySource([{ id: 'm1', topic, partition: 0, offset: 4n, brokerId: `${topic}-receipt` }], {
        lane,
      });
      await consumer.run({ source });
      expect(source.outcomes).toEqual([expected]);
    }
    expect(await wallet.balance()).toBe(500);
  });

  test('C46: hashing the content on purpose loses the second of two equal orders', async () => {
    const wallet = await s.wallet();
    const orders = [
      { id: 'o1', value: order(250) },
      { id: 'o2', value: order(250) },
      { id: 'o3', value: order(251) },
    ];
    const consumer = createConsumer({
      name: freshName(),
      store: s.store,
      identity: contentHash(),
      handle: (message, context) => wallet.credit(context, (message.body as { amount: number }).amount),
    });
    const source = deliverySource(orders);
    await consumer.run({ source });
    expect(source.outcomes).toEqual([P, D, P]);
    expect(await wallet.balance()).toBe(501);
  });

  test('a start with ids made in another way is refused and names both; the same way is accepted', async () => {
    const name = freshName();
    const start = (options: { identity?: Identity; normalise?: Normaliser }) =>
      createConsumer({ name, store: s.store, ...options, handle: () => undefined }).run({ source: memorySource([]) });
    await start({ identity: header('X-Event-Id') });
    await start({ identity: header('x-event-id') });
    const named = (other: string) => ({
      code: 'NT_CONFIG',
      message: expect.stringMatching(new RegExp(`header:x-event-id\\|as-is.*${other}`)),
    });
    await expect(start({ identity: bodyPath('id') })).rejects.toMatchObject(named('body:id\\|as-is'));
    await expect(start({ identity: header('x-event-id'), normalise: nfc })).rejects.toMatchObject(
      named('header:x-event-id\\|nfc'),
    );
    const inbox = createInbox({ name, store: other });
    await expect(inbox.process({ id: 'm1', body: {} }, () => undefined)).rejects.toMatchObject(named('given'));
    await start({ identity: header('x-event-id') });
  });

  test('createInbox checks and normalises the id it is given like any other', async () => {
    const inbox = createInbox({ name: freshName(), store: s.store, normalise: lowerCaseUuid });
    const handled: string[] = [];
    const process = async (id: unknown) =>
      (await inbox.process({ id: id as string, body: {} }, message => void handled.push(message.id))).status;
    expect(await Promise.all(['', undefined, 'a\0b', 'x'.repeat(10_000), '\ud800', {}].map(process))).toEqual(
      Array<string>(6).fill(X),
    );
    for (const [i, id] of uuids.entries()) expect(await process(id)).toBe([P, D, D, P][i]);
    expect(handled).toEqual([lower, 'evt_123']);
  });
});
