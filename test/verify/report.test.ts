import { stripVTControlCharacters } from 'node:util';
import { expect, test } from 'vitest';
import { FORMATS, render } from '../../src/verify/report/index.ts';
import { storyOf } from '../../src/verify/report/story.ts';
import { clean, widthOf, wrapped } from '../../src/verify/report/text.ts';
import {
  ack,
  CONVICTED,
  convicted,
  deliver,
  landing,
  markFirst,
  nack,
  naive,
  noKey,
  once,
  plan,
  poisoned,
  report,
  step,
  UPDATE,
  unknown,
} from './report-cases.ts';

const at120 = { width: 120 };
const numbered = (text: string) => text.split('\n').filter(line => /^ ?\d+ {2}\S|^ ?\d+ {2,}│/.test(line));

/** From the first line of the picture to the last. */
function pictureOf(text: string): string {
  return text.split('\n\n')[1]!;
}

test('one consumer: one column, without tags', () => {
  expect(pictureOf(render(naive, 'terminal', at120))).toBe(
    [
      " 1  UPDATE wallet SET balance = balance + 5 WHERE id = 'alice' → UPDATE 1  ⚡ executed, reply lost",
      '      ← from here nothing can save it',
      ' 2  ┄┄ deliver m1 again to consumer 1: the handler failed (Error: Connection terminated unexpectedly) ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄',
      " 3  UPDATE wallet SET balance = balance + 5 WHERE id = 'alice' → UPDATE 1",
      ' 4  ack',
    ].join('\n'),
  );
});

test('two consumers: a column each', () => {
  expect(pictureOf(render(noKey, 'terminal', at120))).toBe(`\
    consumer 1                                               │ consumer 2
    ─────────────────────────────────────────────────────────┼─────────────────────────────────────────────────────────
 1  SELECT 1 FROM processed WHERE id = 'm1' → SELECT 0       │
 2  ┄┄ deliver m1 again to consumer 2: the channel was closed while the consumer was at work, and the message
       requeued ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄
 3                                                           │ SELECT 1 FROM processed WHERE id = 'm1' → SELECT 0
                                                             │   ← from here nothing can save it
 4                                                           │ UPDATE wallet SET balance = balance + 5 WHERE id =
                                                             │ 'alice' → UPDATE 1
 5  UPDATE wallet SET balance = balance + 5 WHERE id =       │
    'alice' … waits for a lock                               │
 6                                                           │ INSERT INTO processed (id) VALUES ('m1') → INSERT 0 1
 7                                                           │ COMMIT
 8  gets its lock: UPDATE wallet SET balance = balance + 5   │
    WHERE id = 'alice' → UPDATE 1                            │
 9                                                           │ ack
10  INSERT INTO processed (id) VALUES ('m1') → INSERT 0 1    │
11  COMMIT                                                   │
12  ack                                                      │`);
});

test('two consumers in a narrow window: one column with tags', () => {
  expect(pictureOf(render(markFirst, 'terminal', { width: 80 }))).toBe(`\
 1  c1  INSERT INTO processed (id) VALUES ('m1') ON CONFLICT DO NOTHING
          → INSERT 0 1
 2  c1  UPDATE wallet SET balance = balance + 5 WHERE id = 'alice'
          ⚡ killed before it (SIGKILL)  ← from here nothing can save it
 3  ┄┄ deliver m1 again to consumer 2: its consumer crashed ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄
 4  c2  INSERT INTO processed (id) VALUES ('m1') ON CONFLICT DO NOTHING
          → INSERT 0 0
 5  c2  ack`);
});

test('what was on its way when its process died, and where it landed', () => {
  const picture = pictureOf(render(landing, 'terminal', at120));
  expect(picture).toContain("'alice'  ⚡ killed, and it is still on its way           │");
  expect(picture).toContain(' 8  lands now: UPDATE wallet SET balance = balance + 5 WHERE │');
});

test('what comes again and again is told once', () => {
  expect(pictureOf(render(poisoned, 'terminal', at120))).toBe(`\
 1  INSERT INTO processed (id) VALUES ('m1') → INSERT 0 1
 2  UPDATE wallet SET balance = balance + 5 WHERE id = 'alice' → UPDATE 1
 3  COMMIT  ⚡ executed, reply lost  ← from here nothing can save it
 4  ┄┄ deliver m1 again to consumer 1: the handler failed (Error: Connection terminated unexpectedly) ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄
 5  INSERT INTO processed (id) VALUES ('m1') → ✖ 23505: duplicate key value violates unique constraint "processed_pkey"
 6  ┄┄ and the same at 5 further deliveries ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄`);
});

test('the whole report', () => {
  const text = render(markFirst, 'terminal', at120);
  expect(text.split('\n\n').toSpliced(1, 1).join('\n\n')).toBe(`\
✖ partial: found after 10 executions (0.4 s)

    LOST          wallet.balance 105 expected, 100 found (+5 not applied)

    because       the mark was committed before the effect: consumer 1's INSERT INTO processed was there to stay when
                  consumer 1 had failed, and consumer 2 took the message for done although its effect was missing
    fix           put both into one transaction, the mark first: INSERT the id under a unique key with ON CONFLICT DO
                  NOTHING, and stop when no row was inserted
    more          docs/verify.md#mark-first
    replay        npx nevertwice verify ./pay.ts --replay 0a1b2c3d-AYM

    tried         the delivery without any trouble, and some with more; 2 consumers, 1 message
    not tried     what else may be wrong: the search stopped here; more than 2 troubles in one execution, or 3 consumers
                  and more; other messages, and branches of the handler that these do not reach; data that a server
                  loses`);
});

test('once: what that covers and what not', () => {
  expect(render(once, 'terminal', at120)).toBe(`\
✔ once: 412 executions in 6.1 s, complete for at most 2 troubles (1 crash, 1 cut connection, 1 extra copy, 1 late request, 2 switches), 2 consumers, 1 message

    tried         all of what rabbitmq and the network can do with at most 2 troubles; 2 consumers, 1 message
    not tried     more than 2 troubles in one execution, or 3 consumers and more; other messages, and branches of the
                  handler that these do not reach; data that a server loses
    not compared  ledger.created_at (different in every run)`);
});

test('unknown: why', () => {
  expect(render(unknown, 'terminal').split('\n')[0]).toBe(
    '? unknown: the handler uses something that the verifier cannot hold: a connection to api.example.com:443',
  );
  expect(storyOf(unknown)).toMatch(/^\? unknown: the handler uses something/);
});

test('the story of an assertion is the report in plain text', () => {
  expect(storyOf(naive)).toBe(render(naive, 'terminal'));
});

test('no story of one message has more than twelve lines', () => {
  const noise = Array.from({ length: 9 }, (_, i) => step(1, `SELECT n FROM settings WHERE id = ${i}`, 'SELECT 1'));
  const copies = Array.from({ length: 6 }, (_, i) => [
    ...noise,
    step(1, `INSERT INTO audit${i} VALUES ('m1')`, 'INSERT 0 1'),
    step(1, UPDATE, 'UPDATE 1', { fault: 'reset' }),
    nack(1, 'Error'),
    deliver(1 + (i % 2), i + 2, 'the handler failed'),
  ]);
  const long = convicted(
    'double',
    [deliver(1), ...copies.flat(), step(2, UPDATE, 'UPDATE 1'), ack(2)],
    [{ table: 'wallet', kind: 'double', text: 'wallet' }],
  );
  for (const one of [...Object.values(CONVICTED), long]) {
    for (const width of [80, 120]) {
      const lines = numbered(pictureOf(render(one, 'terminal', { width })));
      expect(lines.length).toBeGreaterThan(0);
      expect(lines.length).toBeLessThanOrEqual(12);
    }
  }
});

test('what is left out first is what matters least', () => {
  const reads = Array.from({ length: 12 }, (_, i) => step(1, `SELECT n FROM settings WHERE id = ${i}`, 'SELECT 1'));
  const long = convicted(
    'double',
    [
      deliver(1),
      ...reads,
      step(1, UPDATE, 'UPDATE 1'),
      step(1, 'ack', undefined, { place: 'broker', fault: 'crash' }),
      deliver(2, 2, 'its consumer crashed'),
      step(2, UPDATE, 'UPDATE 1'),
      ack(2),
    ],
    [{ table: 'wallet', kind: 'double', text: 'wallet' }],
  );
  const picture = pictureOf(render(long, 'terminal', at120));
  expect(picture.match(/UPDATE wallet SET/g)).toHaveLength(2);
  expect(picture).toContain('… SELECT FROM settings;');
  expect(picture).toContain('⚡ killed before it (SIGKILL)');
});

test('columns line up, whatever stands in them', () => {
  const name = '東京の山田👩‍👩‍👧 Zoë é';
  const odd = convicted(
    'double',
    [
      deliver(1),
      step(1, `INSERT INTO 入金 VALUES ('${name}', '${name}')`, 'INSERT 0 1', { fault: 'crash' }),
      deliver(2, 2, 'its consumer crashed'),
      step(2, `INSERT INTO 入金 VALUES ('${name.repeat(9)}')`, 'INSERT 0 1'),
      step(1, UPDATE, undefined, { fault: 'reset' }),
      ack(2),
    ],
    [{ table: '入金', kind: 'double', text: '入金' }],
    { sealedAt: 3 },
  );
  const lines = pictureOf(render(odd, 'terminal', at120)).split('\n');
  const bars = lines.filter(line => !line.includes('┄')).map(line => widthOf(line.split(/[│┼]/)[0]!));
  expect(new Set(bars)).toEqual(new Set([61]));
  for (const line of lines) expect(widthOf(line)).toBeLessThanOrEqual(120);
});

test('a long statement takes two lines, and its result stays', () => {
  const long = `INSERT INTO ledger (${Array.from({ length: 40 }, (_, i) => `column_${i}`).join(', ')}) VALUES (1)`;
  const found = convicted(
    'double',
    [
      deliver(1),
      step(1, long, 'INSERT 0 1'),
      deliver(2, 2, 'its consumer crashed'),
      step(2, long, 'INSERT 0 1'),
      ack(2),
    ],
    [{ table: 'ledger', kind: 'double', text: 'ledger' }],
  );
  const [, , first, second, third] = pictureOf(render(found, 'terminal', at120)).split('\n');
  expect(first).toMatch(/^ 1 {2}INSERT INTO ledger \(column_0, .*│$/);
  expect(second).toMatch(/^ {4}column_.*… → INSERT 0 1 +│$/);
  expect(third).toMatch(/^ 2 {2}┄┄ deliver/);
});

test('connections are numbered only where one delivery used several', () => {
  const twoAtOnce = convicted(
    'double',
    [
      deliver(1),
      step(1, 'SELECT 1 FROM a', 'SELECT 1', { connection: 7 }),
      step(1, UPDATE, 'UPDATE 1', { connection: 9 }),
      ack(1),
    ],
    [{ table: 'wallet', kind: 'double', text: 'wallet' }],
  );
  expect(pictureOf(render(twoAtOnce, 'terminal'))).toContain('[connection 2] UPDATE wallet');
  expect(render(naive, 'terminal')).not.toContain('connection 2');
});

test('nothing that a handler says can move the cursor', () => {
  const nasty = convicted(
    'double',
    [
      deliver(1),
      step(1, UPDATE, 'UPDATE 1'),
      nack(1, '\x1b[2Jgone\r\n\u202eback'),
      deliver(1, 2, 'the handler failed'),
    ],
    [{ table: 'wallet', kind: 'double', text: 'a\x1b[31mb' }],
  );
  for (const format of ['terminal', 'mermaid', 'psql'] as const) {
    expect(render(nasty, format)).not.toMatch(/[[\p{Cc}\p{Bidi_C}]--\n]/v);
  }
});

test('colours are added only when asked for, and change no text', () => {
  for (const one of [...Object.values(CONVICTED), once, unknown]) {
    const plain = render(one, 'terminal', at120);
    const coloured = render(one, 'terminal', { ...at120, colour: true });
    expect(plain).not.toContain('\x1b');
    expect(coloured).toContain('\x1b[');
    expect(stripVTControlCharacters(coloured)).toBe(plain);
  }
});

test('several convictions are told one after the other', () => {
  const both = { ...naive, convictions: [...naive.convictions, ...markFirst.convictions] };
  const text = render(both, 'terminal', at120);
  expect(text.match(/^✖ .*$/gm)).toEqual([
    '✖ double: found after 10 executions (0.4 s)',
    '✖ partial: found after 10 executions (0.4 s)',
  ]);
});

test('the replay can be pasted into a shell', () => {
  expect(render({ ...naive, handler: "./my pay's.ts#on" }, 'terminal')).toContain(
    `npx nevertwice verify './my pay'\\''s.ts#on' --replay 0a1b2c3d-AYM`,
  );
});

const EVIL = `<script>alert("1")</script> 'q' ; # %% $$ &amp; end\nnew \u0000 line ]]> style:#a;`;
const evil = convicted(
  'double',
  [
    deliver(1),
    step(1, `INSERT INTO t VALUES ('${EVIL}')`, EVIL),
    nack(1, EVIL),
    deliver(1, 2, 'the handler failed'),
    step(1, UPDATE, 'UPDATE 1'),
    ack(1),
  ],
  [{ table: EVIL, kind: 'double', text: EVIL }],
  { plan: { messages: [{ id: EVIL }], ignore: [EVIL] } },
);
const evilReport = {
  ...evil,
  handler: EVIL,
  masked: [EVIL],
  convictions: evil.convictions.map(one => ({ ...one, token: EVIL })),
};

test('HTML: everything is escaped, and nothing is loaded or run', () => {
  const page = render(evilReport, 'html');
  expect(page).not.toMatch(/<script/i);
  expect(page).toContain('&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;');
  expect(page).not.toContain('\0');
  expect(page).not.toMatch(/https?:|url\(|<link|<img|\son\w+=/);
  expect(page).toContain('prefers-color-scheme: dark');
  // Every tag that is opened is closed.
  for (const tag of [
    'main',
    'section',
    'table',
    'tbody',
    'tr',
    'td',
    'th',
    'dl',
    'dt',
    'dd',
    'div',
    'span',
    'code',
    'ul',
    'li',
    'h1',
    'h2',
    'p',
    'pre',
  ]) {
    const count = (pattern: RegExp) => page.match(pattern)?.length ?? 0;
    expect([tag, count(new RegExp(`<${tag}[ >]`, 'g'))]).toEqual([tag, count(new RegExp(`</${tag}>`, 'g'))]);
  }
});

test('HTML: the timeline has a row for each line and a cell for each consumer', () => {
  const page = render(markFirst, 'html');
  expect(page.match(/<tr/g)).toHaveLength(1 + 5);
  expect(page).toContain('<th scope="col">consumer 2</th>');
  expect(page).toContain('<td colspan="2" class="broker">deliver m1 again to consumer 2: its consumer crashed</td>');
  expect(page).toContain('<span class="fault">⚡ killed before it (SIGKILL)</span>');
  expect(render(once, 'html')).toContain('<p class="verdict once">✔ once');
  expect(render(unknown, 'html')).toContain('<p class="verdict unknown">? unknown');
});

test('Mermaid: a text ends where its line ends', () => {
  const diagram = render(evilReport, 'mermaid');
  const lines = diagram.trimEnd().split('\n');
  expect(lines[0]).toBe('sequenceDiagram');
  for (const line of lines.slice(1)) {
    expect(line).toMatch(
      /^ {2}(?:autonumber|participant \w+ as [\w ]+|Note over \w+(?:,\w+)?: .+|\w+(?:->>|-->>|-x)\w+: .+)$/,
    );
    // What is left of # and ; are the numbers of characters.
    expect(line.replaceAll(/#\d+;/g, '')).not.toMatch(/[#;<"%$]|[^->]>|style/);
  }
});

test('Mermaid: faults, deliveries and the end', () => {
  expect(render(markFirst, 'mermaid')).toBe(`\
sequenceDiagram
  autonumber
  participant B as broker
  participant C1 as consumer 1
  participant C2 as consumer 2
  participant PG as PostgreSQL
  C1->>PG: INSERT INTO processed (id) VALUES ('m1') ON CONFLICT DO NOTHING → INSERT 0 1
  C1-xPG: UPDATE wallet SET balance = balance + 5 WHERE id = 'alice' ⚡ killed before it (SIGKILL)
  Note over C1: ← from here nothing can save it
  B->>C2: deliver m1 again to consumer 2: its consumer crashed
  C2->>PG: INSERT INTO processed (id) VALUES ('m1') ON CONFLICT DO NOTHING → INSERT 0 0
  C2->>B: ack
  Note over C1,PG: wallet.balance 105 expected, 100 found (+5 not applied)
  Note over C1,PG: the mark was committed before the effect: consumer 1's INSERT INTO processed was there to stay when consumer 1 had failed, and consumer 2 took the message for done although its effect was missing. Fix: put both into one transaction, the mark first: INSERT the id under a unique key with ON CONFLICT DO NOTHING, and stop when no row was inserted.
`);
});

test('JUnit: one test case; a conviction is a failure, unknown an error', () => {
  expect(render(once, 'junit')).toMatch(/tests="1" failures="0" errors="0" time="6.100">/);
  expect(render(naive, 'junit')).toMatch(
    /<failure type="double" message="✖ double: found after 10 executions \(0\.4 s\)">✖ double/,
  );
  expect(render(unknown, 'junit')).toMatch(/errors="1"[\s\S]*<error type="unknown" message="\? unknown: the handler/);
  const xml = render(evilReport, 'junit');
  expect(xml.match(/<(?!\/)[\w]+/g)).toEqual(['<testsuites', '<testsuite', '<testcase', '<failure']);
  expect(xml).not.toContain('\0');
  expect(xml).not.toMatch(/]]>|&(?!#\d+;)/);
  expect(/name="(&#60;script[^"]*)"/.exec(xml)?.[1]).toContain('&#34;1&#34;');
});

test('JSON: a stable shape, without functions and without holes', () => {
  const parsed = JSON.parse(render(markFirst, 'json'));
  expect(Object.keys(parsed)).toEqual([
    'format',
    'version',
    'verdict',
    'why',
    'handler',
    'broker',
    'messages',
    'executions',
    'walks',
    'ms',
    'completeTo',
    'bounds',
    'convictions',
    'masked',
    'ignored',
    'accepted',
    'notCovered',
  ]);
  const [conviction] = parsed.convictions;
  expect(conviction).toMatchObject({
    verdict: 'partial',
    sealedAt: 2,
    anchor: '#mark-first',
    token: '0a1b2c3d-AYM',
    replay: 'npx nevertwice verify ./pay.ts --replay 0a1b2c3d-AYM',
  });
  expect(conviction.events[2]).toEqual({
    event: 'step',
    who: 1,
    place: 'postgres',
    connection: 1,
    text: UPDATE,
    result: null,
    failed: false,
    fault: 'crash',
    waited: false,
    paused: false,
  });
  expect(JSON.parse(render(once, 'json')).why).toBeNull();
});

test('psql: two sessions with numbered turns', () => {
  const text = render(noKey, 'psql');
  const [, first, second] = text.split(/^-- session \d/m);
  expect(first).toContain(
    "-- turn 6: waits for a lock from here on\nUPDATE wallet SET balance = balance + 5 WHERE id = 'alice';",
  );
  expect(first).toContain(
    '-- The trace does not show where the transaction began: here, or after a statement or two.\nBEGIN;\n-- turn 2 → SELECT 0',
  );
  expect(second).toContain('-- turn 8 → COMMIT\nCOMMIT;');
  expect(text).toContain(
    "CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);\nINSERT INTO wallet VALUES ('alice', 100);",
  );
});

test('psql: a connection that is cut is opened anew, and what was on its way comes from where it was', () => {
  expect(render(naive, 'psql')).toContain(
    "UPDATE wallet SET balance = balance + 5 WHERE id = 'alice';\n\\c\n-- turn 3: nack",
  );
  expect(render(landing, 'psql')).toContain(
    "-- turn 9: what was on its way lands now → UPDATE 1\nUPDATE wallet SET balance = balance + 5 WHERE id = 'alice';\n\\c",
  );
});

test('psql: with transactions in the trace nothing need be guessed', () => {
  const sure = convicted(
    'double',
    [
      deliver(1),
      step(1, 'SELECT 1 FROM a', 'SELECT 1', { inTransaction: false }),
      step(1, UPDATE, 'UPDATE 1', { inTransaction: true }),
      step(1, 'COMMIT', 'COMMIT', { inTransaction: true }),
      ack(1),
    ],
    [{ table: 'wallet', kind: 'double', text: 'wallet' }],
  );
  expect(render(sure, 'psql')).toContain(
    `-- turn 2 → SELECT 1\nSELECT 1 FROM a;\nBEGIN;\n-- turn 3 → UPDATE 1\n${UPDATE};\n-- turn 4 → COMMIT\nCOMMIT;`,
  );
});

test('every format says something of every report', () => {
  const empty = report({ verdict: 'unknown', why: undefined, completeTo: -1, plan: { ...plan, schema: '', seed: '' } });
  for (const format of FORMATS) {
    for (const one of [...Object.values(CONVICTED), once, unknown, empty])
      expect(render(one, format, { width: 0 }).length).toBeGreaterThan(20);
  }
});

test('text: widths, lines and what is unprintable', () => {
  expect(widthOf('a→b')).toBe(3);
  expect(widthOf('東京')).toBe(4);
  expect(widthOf('e\u0301👩‍👩‍👧⚡')).toBe(5);
  expect(clean('a\n\tb\x07\u202ec')).toBe('a b\\u0007\\u202ec');
  expect(wrapped('aa bb cc', 5)).toEqual(['aa bb', 'cc']);
  expect(wrapped('abcdefgh', 3)).toEqual(['abc', 'def', 'gh']);
});
