import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { bodyPath, type ConsumerOptions, createConsumer, createInbox, type Schema, trusted } from '../../src/index.ts';
import { deliverySource, type Given } from './deliveries.ts';
import { type AnyStore, allStores, freshName, type Wallet } from './stores.ts';

const SECRET = 'geheim-4711';
const schemaOf = (validate: (value: any) => unknown): Schema<any> => ({
  '~standard': { version: 1, vendor: 'test', validate },
});
const payment = z.object({ amount: z.number(), lines: z.array(z.object({ sku: z.string() })).default([]) });

interface Row {
  readonly title: string;
  readonly options?: Partial<ConsumerOptions<any, any, any, any>>;
  readonly given: Given;
  readonly reason: RegExp;
}

const rows: readonly Row[] = [
  {
    title: 'text that is not JSON',
    given: { value: `{"amount": ${SECRET}` },
    reason: /^NT_BAD_MESSAGE: the body cannot be decoded$/,
  },
  { title: 'an empty body', given: { value: '' }, reason: /cannot be decoded/ },
  { title: 'empty bytes', given: { value: new Uint8Array() }, reason: /cannot be decoded/ },
  { title: 'no body at all', given: { value: undefined }, reason: /has no body/ },
  {
    title: 'bytes that are not UTF-8',
    given: { value: Buffer.from([0x22, 0xc3, 0x28, 0x22]) },
    reason: /cannot be decoded/,
  },
  {
    title: 'half a surrogate pair cut by its producer',
    given: { value: Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]) },
    reason: /cannot be decoded/,
  },
  {
    title: 'a decoder of the user that throws',
    options: {
      decode: value => {
        throw new Error(`cannot read ${value}`);
      },
    },
    given: { value: SECRET },
    reason: /^NT_BAD_MESSAGE: the body cannot be decoded$/,
  },
  {
    title: 'a decoder that is asynchronous by mistake',
    options: { decode: async () => Promise.reject(new Error('late')) },
    given: { value: '{}' },
    reason: /decode returned a promise/,
  },
  {
    title: 'a wrong field (zod)',
    options: { body: payment },
    given: { body: { amount: SECRET } },
    reason: /invalid at amount: .*expected number, received string/,
  },
  {
    title: 'a wrong field deep inside (zod)',
    options: { body: payment },
    given: { body: { amount: 1, lines: [{ sku: 'a' }, { sku: 7 }] } },
    reason: /invalid at lines\.1\.sku: .*expected string/,
  },
  {
    title: 'a wrong root (zod)',
    options: { body: payment },
    given: { value: `"${SECRET}"` },
    reason: /invalid at its root: /,
  },
  {
    title: 'an asynchronous schema (zod)',
    options: { body: z.object({ sku: z.string().refine(async sku => sku !== SECRET, 'is not for sale') }) },
    given: { body: { sku: SECRET } },
    reason: /invalid at sku: is not for sale$/,
  },
  {
    title: 'a schema whose messages quote the value',
    options: {
      body: schemaOf(({ sku }) => ({ issues: [{ message: `must be a sku (was "${sku}")`, path: [{ key: 'sku' }] }] })),
    },
    given: { body: { sku: SECRET } },
    reason: /invalid at sku$/,
  },
  {
    title: 'a schema whose messages quote a short number from elsewhere',
    options: { body: schemaOf(body => ({ issues: [{ message: `got ${body.lines[0].n}`, path: ['sku'] }] })) },
    given: { body: { sku: 'a', lines: [{ n: 42 }] } },
    reason: /invalid at sku$/,
  },
  {
    title: 'a schema that reports an issue without words',
    options: { body: schemaOf(() => ({ issues: [] })) },
    given: { body: {} },
    reason: /invalid at its root$/,
  },
  {
    title: 'a schema that throws',
    options: {
      body: schemaOf(() => {
        throw new TypeError('no such table');
      }),
    },
    given: { body: { sku: SECRET } },
    reason: /the schema failed on the body: no such table$/,
  },
  {
    title: 'a schema that throws the value',
    options: { body: schemaOf(async ({ sku }) => Promise.reject(new RangeError(`bad: ${sku}`))) },
    given: { body: { sku: SECRET } },
    reason: /the schema failed on the body: RangeError$/,
  },
  {
    title: 'a schema that answers nothing',
    options: { body: schemaOf(() => undefined) },
    given: { body: {} },
    reason: /the schema failed on the body: Cannot read/,
  },
  {
    title: 'a fingerprint function that throws',
    options: { fingerprint: message => message.body.customer.id },
    given: { body: { sku: SECRET } },
    reason: /the fingerprint function failed: Cannot read/,
  },
];

describe.each(allStores)('$name', ({ create }) => {
  let s: AnyStore;
  let any: Wallet;
  beforeAll(async () => {
    s = await create();
    any = await s.wallet();
  });
  afterAll(() => s.drop());

  test.each(rows)(
    '$title: set aside once, not handled, the next one goes on',
    async ({ options = {}, given, reason }) => {
      const name = freshName();
      const handled: string[] = [];
      const { decode, body, ...others } = options as any;
      const source = deliverySource([
        { id: 'bad', ...given },
        { id: 'bad', ...given },
      ]);
      const consumer = createConsumer({
        name,
        store: s.store,
        ...options,
        handle: (message: { id: string }) => void handled.push(message.id),
      } as never);
      expect(await consumer.run({ source })).toEqual({
        processed: 0,
        duplicates: 0,
        conflicts: 0,
        deadLetters: 2,
        failed: 0,
      });
      expect(source.outcomes).toEqual(['dead-lettered', 'dead-lettered']);
      const letters = await s.deadLetters(name);
      expect(letters).toMatchObject([{ id: 'bad', kind: 'bad-message', attempts: 0 }]);
      expect(letters[0]!.reason).toMatch(reason);
      expect(letters[0]!.reason).not.toContain(SECRET);
      expect(handled).toEqual([]);

      // Repaired, the same id is new: setting aside does not mark it as done. And once it is done, a bad copy is a copy.
      const wallet = await s.wallet();
      const repaired = createConsumer({
        name,
        store: s.store,
        ...others,
        fingerprint: false,
        handle: (_: unknown, context: unknown) => wallet.credit(context, 500),
      } as never);
      const next = deliverySource([
        { id: 'bad', body: {} },
        { id: 'good', body: {} },
      ]);
      await repaired.run({ source: next });
      expect(next.outcomes).toEqual(['processed', 'processed']);
      const copy = deliverySource([{ id: 'bad', ...given }]);
      await createConsumer({ name, store: s.store, ...options, handle: () => expect.unreachable() } as never).run({
        source: copy,
      });
      expect(copy.outcomes).toEqual(['duplicate']);
      expect(await wallet.balance()).toBe(1000);
      expect(await s.deadLetters(name)).toEqual(letters);
    },
  );

  test('an id in a body that cannot be read is no id; the bytes are kept', async () => {
    const name = freshName();
    const source = deliverySource([{ value: '{"id": oops' }, { value: Buffer.from('{"id": other') }]);
    await createConsumer({ name, store: s.store, identity: bodyPath('id'), handle: () => undefined }).run({ source });
    expect(source.outcomes).toEqual(['dead-lettered', 'dead-lettered']);
    const letters = await s.deadLetters(name);
    expect(letters.map(({ id, kind, payload }) => [id, kind, payload])).toEqual([
      [undefined, 'bad-id', '{"id": oops'],
      [undefined, 'bad-id', '{"id": other'],
    ]);
    expect(letters[0]!.reason).not.toContain('oops');
  });

  test('a delivery that its source could not read is set aside with the source’s word', async () => {
    const name = freshName();
    const source = deliverySource([{ fault: 'line 3 is not JSON', value: 'xx' }, { id: 'm1' }]);
    await createConsumer({ name, store: s.store, handle: (_, context) => any.credit(context, 1) }).run({ source });
    expect(source.outcomes).toEqual(['dead-lettered', 'processed']);
    expect(await s.deadLetters(name)).toMatchObject([
      { kind: 'unreadable', reason: 'line 3 is not JSON', payload: 'xx' },
    ]);
  });

  test('the handler sees what the schema made of the body; what is compared is the body as it was sent', async () => {
    const seen: unknown[] = [];
    const consumer = createConsumer({
      name: freshName(),
      store: s.store,
      body: z.object({
        amount: z.coerce.number(),
        at: z.date().default(() => new Date()),
        more: z.string().optional(),
      }),
      handle: (message, context) => {
        seen.push(message.body.amount, message.body.at instanceof Date);
        return any.credit(context, 1);
      },
    });
    const source = deliverySource(
      ['{"amount":"5"}', '{"amount":"5"}', '{"amount":5}'].map(value => ({ id: 'm1', value })),
    );
    await consumer.run({ source });
    expect(source.outcomes).toEqual(['processed', 'duplicate', 'conflict']);
    expect(seen).toEqual([5, true]);
  });

  test('trusted() takes the producer’s word', async () => {
    const source = deliverySource([{ id: 'm1', body: { amount: 'x' } }]);
    const amounts: string[] = [];
    const handle = (message: { body: { amount: string } }) => void amounts.push(message.body.amount);
    await createConsumer({ name: freshName(), store: s.store, body: trusted<{ amount: string }>(), handle }).run({
      source,
    });
    expect([source.outcomes, amounts]).toEqual([['processed'], ['x']]);
  });

  test('createInbox: a body without a fingerprint is dead-lettered, and a duplicate once its id is done', async () => {
    const name = freshName();
    const inbox = createInbox({ name, store: s.store });
    const circular: { self?: unknown } = {};
    circular.self = circular;
    const process = async (body: unknown) =>
      (await inbox.process({ id: 'm1', body }, (_, context) => any.credit(context, 1))).status;
    expect([await process(circular), await process({}), await process(circular)]).toEqual([
      'dead-lettered',
      'processed',
      'duplicate',
    ]);
    expect(await s.deadLetters(name)).toMatchObject([
      { id: 'm1', kind: 'bad-message', payload: '{"nevertwice:unserialisable":"object"}' },
    ]);
  });
});
