import assert from 'node:assert/strict';
import type { Check, Run, SourceSuiteCapabilities, SuiteMessage } from './support.ts';

export function contentCases(check: Check, { repeatsHeaders, nul, binary }: SourceSuiteCapabilities): void {
  const survives = async (run: Run, message: SuiteMessage) => {
    await run.harness.send([message]);
    const receiver = await run.start();
    const [taken] = await receiver.take(1);
    const { headers, key, keyBytes, value, body } = taken!.delivery;
    assert.equal(headers.get('message-id'), message.id);
    assert.deepEqual(bytesOf(keyBytes ?? key), bytesOf(message.key));
    assert.deepEqual(bytesOf(body === undefined ? value : body.value), bytesOf(message.body));
    for (const [name] of message.headers) {
      const sent = message.headers.filter(([other]) => other === name).map(([, text]) => bytesOf(text));
      assert.deepEqual(headers.getAll(name).map(bytesOf), sent);
    }
  };

  check('content: texts survive exactly, composed and decomposed (C40)', true, run => {
    const text = 'cafe\u0301 caf\u00e9 \u{1f4b6} "\\\r\n\t ';
    return survives(run, { id: 'cafe\u0301', key: text, headers: [['x-text', text]], body: text });
  });

  check('content: a repeated header keeps every value in order (C29)', repeatsHeaders, run =>
    survives(run, {
      id: 'm1',
      key: 'k',
      headers: [
        ['x-tag', 'b'],
        ['x-tag', 'a,c'],
        ['x-tag', 'b'],
      ],
      body: '',
    }),
  );

  check('content: U+0000 survives (C33)', nul, run =>
    survives(run, { id: 'a\u0000b', key: 'k\u0000', headers: [['x-nul', '\u0000']], body: 'b\u0000d' }),
  );

  check('content: bytes that are not UTF-8 survive (C31)', binary, run => {
    const bytes = Uint8Array.of(0xff, 0x00, 0x80, 0x0a, 0x0d, 0xc3, 0x28);
    return survives(run, { id: 'm1', key: bytes, headers: [['x-bytes', bytes]], body: bytes });
  });
}

function bytesOf(value: unknown): string {
  const bytes = typeof value === 'string' ? Buffer.from(value) : Buffer.from(value as Uint8Array);
  return bytes.toString('hex');
}
