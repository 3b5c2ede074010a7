import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { replyOf, textOf } from '../../src/verify/proxies/redis-commands.ts';
import { NotResp, Replies, Requests, type RespValue, requestOf } from '../../src/verify/proxies/redis-resp.ts';

/** What a value looks like on the wire. */
const written: fc.Arbitrary<string> = fc.letrec<{ value: string }>(tie => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.string().map(text => `+${text.replace(/[\r\n]/g, '')}\r\n`),
    fc.string().map(text => `-ERR ${text.replace(/[\r\n]/g, '')}\r\n`),
    fc.integer().map(n => `:${n}\r\n`),
    fc.string({ unit: 'binary' }).map(text => `$${Buffer.byteLength(text)}\r\n${text}\r\n`),
    fc.constantFrom(
      '$-1\r\n',
      '*-1\r\n',
      '_\r\n',
      '#t\r\n',
      ',1.5\r\n',
      '(123456789012345678901\r\n',
      '=5\r\ntxt:a\r\n',
      '!3\r\nERR\r\n',
    ),
    fc.array(tie('value'), { maxLength: 4 }).map(items => `*${items.length}\r\n${items.join('')}`),
    fc.array(tie('value'), { maxLength: 4 }).map(items => `~${items.length}\r\n${items.join('')}`),
    fc.array(tie('value'), { maxLength: 4 }).map(items => `>${items.length}\r\n${items.join('')}`),
    fc
      .array(fc.tuple(tie('value'), tie('value')), { maxLength: 3 })
      .map(items => `%${items.length}\r\n${items.flat().join('')}`),
    tie('value').map(value => `|1\r\n+ttl\r\n:3\r\n${value}`),
  ),
})).value;

function pieces(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const at = [...new Set(cuts.map(cut => cut % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...at].map((from, i) => bytes.subarray(from, at[i] ?? bytes.length));
}

function replies(parts: readonly Buffer[]): { readonly values: RespValue[]; readonly bytes: Buffer[] } {
  const stream = new Replies();
  const [values, bytes]: [RespValue[], Buffer[]] = [[], []];
  for (const part of parts) {
    stream.push(part);
    for (let next = stream.next(); next !== undefined; next = stream.next()) {
      values.push(next.value);
      bytes.push(next.bytes);
    }
  }
  return { values, bytes };
}

function requests(parts: readonly Buffer[]): string[][] {
  const stream = new Requests();
  const found: string[][] = [];
  for (const part of parts) {
    stream.push(part);
    for (let next = stream.next(); next !== undefined; next = stream.next()) found.push(next.value.map(String));
  }
  return found;
}

const reply = (wire: string) => {
  const { values } = replies([Buffer.from(wire)]);
  expect(values).toHaveLength(1);
  return replyOf(values[0]!);
};
const text = (...args: (string | Buffer)[]) => textOf(args.map(arg => Buffer.from(arg)));

describe('replies', () => {
  test('are found, whole and in order, wherever the stream is cut', () => {
    fc.assert(
      fc.property(
        fc.array(written, { minLength: 1, maxLength: 5 }),
        fc.array(fc.nat(), { maxLength: 8 }),
        (said, cuts) => {
          const whole = Buffer.from(said.join(''));
          const { values, bytes } = replies(pieces(whole, cuts));
          expect(bytes.map(String)).toEqual(said);
          expect(values).toEqual(replies(said.map(one => Buffer.from(one))).values);
        },
      ),
    );
  });

  test.each([
    ['+OK\r\n', 'OK', false],
    ['$-1\r\n', '(nil)', false],
    ['_\r\n', '(nil)', false],
    [':1\r\n', '1', false],
    ['#f\r\n', 'false', false],
    ['$5\r\nhello\r\n', 'hello', false],
    ['$0\r\n\r\n', "''", false],
    ['$11\r\nhello there\r\n', "'hello there'", false],
    ['=8\r\ntxt:some\r\n', 'some', false],
    ['-ERR no\r\n', 'ERR no', true],
    ['!5\r\nERR a\r\n', 'ERR a', true],
    ['*3\r\n:1\r\n$-1\r\n*1\r\n+OK\r\n', '[1, (nil), [OK]]', false],
    ['%2\r\n+a\r\n:1\r\n+b\r\n:2\r\n', '{a: 1, b: 2}', false],
    ['|1\r\n+ttl\r\n:3\r\n+OK\r\n', 'OK', false],
    // What a MULTI came to when one of its commands failed.
    ['*2\r\n+OK\r\n-WRONGTYPE no list\r\n', '[OK, WRONGTYPE no list]', true],
  ])('%j reads %s', (wire, shown, failed) => {
    expect(reply(wire)).toEqual({ text: shown, failed });
  });

  test('what is not RESP is said to be none', () => {
    const stream = new Replies();
    stream.push(Buffer.from('HTTP/1.1 400 Bad Request\r\n'));
    expect(() => stream.next()).toThrow(NotResp);
  });
});

describe('requests', () => {
  test('are found, whole and in order, wherever the stream is cut', () => {
    const args = fc.array(fc.string({ unit: 'binary' }), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(
        fc.array(args, { minLength: 1, maxLength: 5 }),
        fc.array(fc.nat(), { maxLength: 8 }),
        (asked, cuts) => {
          expect(requests(pieces(Buffer.concat(asked.map(requestOf)), cuts))).toEqual(asked);
        },
      ),
    );
  });

  test('may be lines, as a person types them', () => {
    expect(requests([Buffer.from('PING\r\nSET a "two \\"words\\""\nGET \'a\'\r\n\r\n')])).toEqual([
      ['PING'],
      ['SET', 'a', 'two "words"'],
      ['GET', 'a'],
      [],
    ]);
  });
});

describe('the text of a command', () => {
  test('is one line, with what is long or binary cut short', () => {
    expect(text('set', 'd:m1', '1', 'NX', 'PX', '60000')).toBe('SET d:m1 1 NX PX 60000');
    expect(text('SET', 'a', '')).toBe("SET a ''");
    expect(text('SET', 'a', 'one\ntwo')).toBe("SET a 'one two'");
    expect(text('SET', 'a', '{"b":1}')).toBe('SET a {"b":1}');
    expect(text('SET', 'a', Buffer.from([0, 255, 3]))).toBe('SET a <3 bytes>');
    expect(text('SET', 'a', 'x'.repeat(1_000))).toBe(`SET a ${'x'.repeat(39)}…`);
    expect(text('DEL', ...Array.from({ length: 500 }, (_, i) => `key${i}`))).toHaveLength(160);
  });

  test('is the same for each random token, so that one execution can be compared to another', () => {
    expect(text('SET', 'lock', crypto.randomUUID(), 'NX')).toBe('SET lock <uuid> NX');
  });

  test('names a script by its digest, whether the script or only the digest is sent', () => {
    const script = 'return 1';
    expect(text('EVAL', script, '1', 'k', 'v')).toBe('EVAL e0e1f9fa 1 k v');
    expect(text('EVALSHA', 'E0E1F9FABFC9D4800C877A703B823AC0578FF8DB', '1', 'k', 'v')).toBe('EVAL e0e1f9fa 1 k v');
    expect(text('FCALL', 'pay', '1', 'k', 'v')).toBe('FCALL pay 1 k v');
  });
});
