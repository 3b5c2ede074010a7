import { expect, test } from 'vitest';
import type { Difference, VerdictName } from '../../src/verify/oracle.ts';
import type { Plan } from '../../src/verify/plan.ts';
import { ANCHORS, becauseOf } from '../../src/verify/report/because.ts';
import type { Report } from '../../src/verify/report.ts';
import type { TraceEvent } from '../../src/verify/trace.ts';
import {
  ack,
  CLAIM,
  convicted,
  deliver,
  httpInTransaction,
  LOOK,
  land,
  landing,
  MARK,
  markFirst,
  nack,
  naive,
  noKey,
  overlap,
  poisoned,
  step,
  UPDATE,
  unblocked,
} from './report-cases.ts';

const CUT = 'Error: Connection terminated unexpectedly';
const wallet = (kind: Difference['kind']): Difference => ({ table: 'wallet', kind, text: 'wallet' });
const redis = (who: number, text: string, result: string | undefined, more = {}): TraceEvent =>
  step(who, text, result, { place: 'redis', ...more });

function because(report: Report) {
  return becauseOf(report.convictions[0]!, report.plan);
}

function explained(
  verdict: VerdictName,
  events: readonly TraceEvent[],
  differences: readonly Difference[],
  plan: Partial<Plan> = {},
) {
  return because(convicted(verdict, events, differences, { plan }));
}

test('nothing tells a copy from a new message', () => {
  const { anchor, because: text, evidence } = because(naive);
  expect(anchor).toBe('#no-deduplication');
  expect(text).toBe(
    'nothing on a server tells a copy from a new message: UPDATE wallet ran once for each delivery; the server had executed the first although the client saw an error',
  );
  expect([...new Set(evidence)]).toEqual([1, 4]);
});

test('two looked before one wrote, and nothing makes the second INSERT fail', () => {
  const { anchor, because: text, fix } = because(noKey);
  expect(anchor).toBe('#check-then-act');
  expect(text).toBe(
    "consumer 1's SELECT FROM processed ran before consumer 2's INSERT INTO processed was committed, and nothing makes the second INSERT fail",
  );
  expect(fix).toBe('put a unique key on processed(id) and insert first, in the transaction of the effect');
});

test('two looked before one wrote, and the unique key came too late', () => {
  expect(because(overlap).because).toBe(
    "consumer 1's SELECT FROM processed ran before consumer 2's INSERT INTO processed was committed, and the unique key on processed came too late: consumer 1's UPDATE wallet had already been committed by itself",
  );
});

test('the rules go by structure: other names, another kind of mark, another consumer first', () => {
  const find = `select "id" from "public"."Inbox" where "id" = 'm1' for update`;
  const add = `insert into "public"."Inbox" ("id", "at") values ('m1', now()) returning "id"`;
  const pay = `insert into payments (account, amount) values ('alice', 5)`;
  const found = explained(
    'double',
    [
      deliver(1),
      step(1, find, 'SELECT 0'),
      deliver(2, 2, 'the visibility timeout ran out while the consumer was at work'),
      step(2, find, 'SELECT 0'),
      step(2, pay, 'INSERT 0 1'),
      step(1, pay, 'INSERT 0 1'),
      step(1, add, 'INSERT 0 1'),
      step(1, 'COMMIT', 'COMMIT'),
      ack(1),
      step(2, add, 'INSERT 0 1'),
      step(2, 'COMMIT', 'COMMIT'),
      ack(2),
    ],
    [
      { table: 'payments', kind: 'double', text: 'payments' },
      { table: 'Inbox', kind: 'double', text: 'Inbox' },
    ],
  );
  expect(found.because).toBe(
    "consumer 2's SELECT FROM Inbox ran before consumer 1's INSERT INTO Inbox was committed, and nothing makes the second INSERT fail",
  );
});

test('the effect was committed and the mark was not', () => {
  const { anchor, because: text } = explained(
    'double',
    [
      deliver(1),
      step(1, LOOK, 'SELECT 0'),
      step(1, UPDATE, 'UPDATE 1'),
      step(1, MARK, undefined, { fault: 'crash' }),
      deliver(2, 2, 'its consumer crashed'),
      step(2, LOOK, 'SELECT 0'),
      step(2, UPDATE, 'UPDATE 1'),
      step(2, MARK, 'INSERT 0 1'),
      ack(2),
    ],
    [wallet('double')],
  );
  expect(anchor).toBe('#mark-after');
  expect(text).toBe(
    "consumer 1's UPDATE wallet was committed and its mark in processed was not; each statement committed by itself, so the next delivery found no mark",
  );
});

test('the mark is in Redis and was written last', () => {
  const { anchor, fix } = explained(
    'double',
    [
      deliver(1),
      redis(1, 'GET done:m1', '(nil)'),
      step(1, UPDATE, 'UPDATE 1'),
      redis(1, 'SET done:m1 1', undefined, { fault: 'reset' }),
      nack(1, CUT),
      deliver(1, 2, 'the handler failed'),
      redis(1, 'GET done:m1', '(nil)'),
      step(1, UPDATE, 'UPDATE 1'),
      redis(1, 'SET done:m1 1', 'OK'),
      ack(1),
    ],
    [wallet('double')],
  );
  expect(anchor).toBe('#mark-after');
  expect(fix).toBe('keep the mark where the effect is: no transaction covers both Redis and PostgreSQL');
});

test('the mark was committed before the effect', () => {
  const { anchor, because: text } = because(markFirst);
  expect(anchor).toBe('#mark-first');
  expect(text).toBe(
    "the mark was committed before the effect: consumer 1's INSERT INTO processed was there to stay when consumer 1 had failed, and consumer 2 took the message for done although its effect was missing",
  );
});

test('the mark was in Redis before the effect', () => {
  const { anchor } = explained(
    'lost',
    [
      deliver(1),
      redis(1, 'SET done:m1 1 NX', 'OK'),
      step(1, UPDATE, undefined, { fault: 'crash' }),
      deliver(2, 2, 'its consumer crashed'),
      redis(2, 'SET done:m1 1 NX', '(nil)'),
      ack(2),
    ],
    [wallet('lost')],
  );
  expect(anchor).toBe('#mark-elsewhere');
});

test('the catch took the mark back although COMMIT had been executed', () => {
  const { anchor, because: text } = explained(
    'double',
    [
      deliver(1),
      redis(1, 'SET done:m1 1 NX PX 60000', 'OK'),
      step(1, UPDATE, 'UPDATE 1'),
      step(1, 'COMMIT', 'COMMIT', { fault: 'reply-lost' }),
      redis(1, 'DEL done:m1', '1'),
      nack(1, CUT),
      deliver(1, 2, 'the handler failed'),
      redis(1, 'SET done:m1 1 NX PX 60000', 'OK'),
      step(1, UPDATE, 'UPDATE 1', { connection: 2 }),
      step(1, 'COMMIT', 'COMMIT', { connection: 2 }),
      ack(1),
    ],
    [wallet('double')],
  );
  expect(anchor).toBe('#mark-taken-back');
  expect(text).toBe(
    "the server had executed COMMIT although the client saw an error, and the handler's catch took the mark back (redis DEL done:m1)",
  );
});

test('the HTTP request is not rolled back with the transaction', () => {
  const { anchor, because: text, fix } = because(httpInTransaction);
  expect(anchor).toBe('#http');
  expect(text).toMatch(
    /^the HTTP request is not rolled back with the transaction: POST \/charges had been carried out/,
  );
  expect(fix).toMatch(/^send an Idempotency-Key derived from the message id, or write the request into an outbox/);
});

test('the copies sent different keys', () => {
  const charge = (who: number, key: string) => step(who, `POST /charges {} (key ${key})`, '201', { place: 'http' });
  const { anchor } = explained(
    'double',
    [
      deliver(1),
      charge(1, 'k1'),
      step(1, 'ack', undefined, { place: 'broker', fault: 'crash' }),
      deliver(2, 2, 'its consumer crashed'),
      charge(2, 'k2'),
      ack(2),
    ],
    [{ table: 'http', kind: 'double', text: 'http' }],
  );
  expect(anchor).toBe('#http-key');
});

test('a mark that is written last claims nothing, even where it runs out', () => {
  const get = (who: number) => redis(who, 'GET done:m1', '(nil)');
  const set = (who: number) => redis(who, 'SET done:m1 1 EX 86400', 'OK');
  const { anchor } = explained(
    'double',
    [
      deliver(1),
      get(1),
      deliver(2, 2, 'AckWait ran out'),
      get(2),
      step(2, UPDATE, 'UPDATE 1'),
      set(2),
      ack(2),
      step(1, UPDATE, 'UPDATE 1'),
      set(1),
      ack(1),
    ],
    [wallet('double')],
  );
  expect(anchor).toBe('#check-then-act');
});

test('a mark that lands too late is none', () => {
  const get = (who: number) => redis(who, 'GET done:m1', '(nil)');
  const { anchor } = explained(
    'double',
    [
      deliver(1),
      get(1),
      step(1, UPDATE, 'UPDATE 1'),
      redis(1, 'SET done:m1 1', undefined, { fault: 'in-flight' }),
      deliver(2, 2, 'its consumer crashed'),
      get(2),
      step(2, UPDATE, 'UPDATE 1'),
      redis(2, 'SET done:m1 1', 'OK'),
      ack(2),
      { event: 'land', who: 1, place: 'redis', text: 'SET done:m1 1', result: 'OK' },
    ],
    [wallet('double')],
  );
  expect(anchor).toBe('#mark-after');
});

test('a client that sends again by itself meets its own mark', () => {
  const set = (result: string, more = {}) => redis(1, 'SET done:m1 1 NX', result, more);
  const events = [deliver(1), set('OK', { fault: 'reply-lost' }), set('(nil)')];
  expect(explained('lost', [...events, ack(1)], [wallet('lost')]).anchor).toBe('#own-mark');
  const refused = [...events, nack(1, 'busy'), deliver(1, 2, 'the handler failed'), set('(nil)'), nack(1, 'busy')];
  expect(explained('poisoned', refused, [{ table: 'broker', kind: 'wrong', text: 'busy' }]).anchor).toBe('#own-mark');
});

test('a statement may be both mark and effect', () => {
  const both = `WITH mark AS (INSERT INTO processed (id) VALUES ('m1') ON CONFLICT DO NOTHING) ${UPDATE}`;
  const { because: text } = explained(
    'double',
    [
      deliver(1),
      step(1, LOOK, 'SELECT 0'),
      deliver(2, 2, 'AckWait ran out'),
      step(2, LOOK, 'SELECT 0'),
      step(2, both, 'UPDATE 1'),
      ack(2),
      step(1, both, 'UPDATE 1'),
      ack(1),
    ],
    [wallet('double')],
  );
  expect(text).toBe(
    "consumer 1's SELECT FROM processed ran before consumer 2's INSERT INTO processed was committed, and nothing makes the second INSERT fail",
  );
});

test('an effect in Redis is wrapped in Redis', () => {
  const { anchor, fix } = explained(
    'double',
    [
      deliver(1),
      redis(1, 'INCR views', '1', { fault: 'reply-lost' }),
      nack(1, CUT),
      deliver(1, 2, 'the handler failed'),
      redis(1, 'INCR views', '2'),
      ack(1),
    ],
    [{ table: 'redis', kind: 'double', text: 'redis' }],
  );
  expect(anchor).toBe('#no-deduplication');
  expect(fix).toContain('in one script (EVAL)');
});

test('a published message is not taken back', () => {
  const publish = (who: number) => step(who, 'publish {"paid":"m1"}', '', { place: 'broker', connection: 0 });
  const { anchor } = explained(
    'double',
    [
      deliver(1),
      publish(1),
      step(1, MARK, undefined, { fault: 'crash' }),
      deliver(2, 2, 'its consumer crashed'),
      publish(2),
      step(2, MARK, 'INSERT 0 1'),
      ack(2),
    ],
    [{ table: 'published', kind: 'double', text: 'published' }],
  );
  expect(anchor).toBe('#publish');
});

test('a request of a dead process landed after its successor had done the work', () => {
  const { anchor, because: text } = because(landing);
  expect(anchor).toBe('#late-request');
  expect(text).toMatch(/^consumer 1's UPDATE wallet was still on its way when its process had died, and landed/);
  const commit = explained(
    'double',
    [
      deliver(1),
      step(1, LOOK, 'SELECT 0'),
      step(1, MARK, 'INSERT 0 1'),
      step(1, UPDATE, 'UPDATE 1'),
      step(1, 'COMMIT', undefined, { fault: 'in-flight' }),
      deliver(2, 2, 'its consumer crashed'),
      step(2, LOOK, 'SELECT 0'),
      step(2, UPDATE, undefined, { waited: true }),
      land(1, 'COMMIT', 'COMMIT'),
      unblocked(2, UPDATE, 'UPDATE 1'),
      step(2, 'COMMIT', 'COMMIT'),
      ack(2),
    ],
    [wallet('double')],
  );
  expect(commit.because).toMatch(/^consumer 1's COMMIT was still on its way/);
});

test('the effect went past the transaction', () => {
  const events = (outer: number): TraceEvent[] => [
    deliver(1),
    step(1, CLAIM, 'INSERT 0 1', { connection: 1 }),
    step(1, UPDATE, 'UPDATE 1', { connection: outer }),
    step(1, 'COMMIT', undefined, { connection: 1, fault: 'crash' }),
    deliver(2, 2, 'its consumer crashed'),
    step(2, CLAIM, 'INSERT 0 1', { connection: 1 }),
    step(2, UPDATE, 'UPDATE 1', { connection: outer }),
    step(2, 'COMMIT', 'COMMIT', { connection: 1 }),
    ack(2),
  ];
  expect(explained('double', events(2), [wallet('double')]).anchor).toBe('#outer-client');
});

test('both held the lease, and the first did not notice', () => {
  const claim = (who: number) =>
    step(
      who,
      `UPDATE jobs SET locked_until = now() + '30 s', owner = '${who}' WHERE id = 'm1' AND locked_until < now()`,
      'UPDATE 1',
    );
  const { anchor } = explained(
    'double',
    [
      deliver(1),
      claim(1),
      deliver(2, 2, 'AckWait ran out'),
      claim(2),
      step(2, UPDATE, 'UPDATE 1'),
      ack(2),
      step(1, UPDATE, 'UPDATE 1'),
      ack(1),
    ],
    [wallet('double')],
  );
  expect(anchor).toBe('#lease-without-fence');
});

test('INSERT … WHERE NOT EXISTS does not see what is not committed', () => {
  const add = `INSERT INTO ledger SELECT 'm1', 5 WHERE NOT EXISTS (SELECT FROM ledger WHERE id = 'm1')`;
  const { anchor, fix } = explained(
    'double',
    [
      deliver(1),
      step(1, add, 'INSERT 0 1'),
      deliver(2, 2, 'AckWait ran out'),
      step(2, add, 'INSERT 0 1'),
      ack(2),
      ack(1),
    ],
    [{ table: 'ledger', kind: 'double', text: 'ledger' }],
  );
  expect(anchor).toBe('#no-unique-key');
  expect(fix).toBe('put a unique key on ledger, and use ON CONFLICT DO NOTHING in place of WHERE NOT EXISTS');
});

test('the message was acked before its effect was durable', () => {
  const { anchor, because: text } = explained(
    'lost',
    [deliver(1), ack(1), step(1, UPDATE, undefined, { fault: 'crash' })],
    [wallet('lost')],
    {
      manualAck: true,
    },
  );
  expect(anchor).toBe('#ack-first');
  expect(text).toBe(
    'the message was acked before its effect was durable: when consumer 1 died, the broker had forgotten the message',
  );
});

test('nobody waited for the effect', () => {
  const { anchor } = explained(
    'lost',
    [deliver(1), ack(1), step(1, UPDATE, undefined, { fault: 'crash' })],
    [wallet('lost')],
  );
  expect(anchor).toBe('#forgotten-await');
});

test('an error was swallowed', () => {
  const { anchor, because: text } = explained(
    'lost',
    [deliver(1), step(1, UPDATE, undefined, { fault: 'reset' }), ack(1)],
    [wallet('lost')],
  );
  expect(anchor).toBe('#swallowed-error');
  expect(text).toBe(
    "consumer 1's UPDATE wallet failed, the handler went on as if it had not, and the broker got an ack",
  );
});

test('COMMIT of a failed transaction is a ROLLBACK', () => {
  const { anchor } = explained(
    'lost',
    [
      deliver(1),
      step(1, UPDATE, 'UPDATE 1'),
      step(1, MARK, '23505: duplicate key'),
      step(1, 'COMMIT', 'ROLLBACK'),
      ack(1),
    ],
    [wallet('lost')],
  );
  expect(anchor).toBe('#failed-transaction');
});

test('half of the statements stayed', () => {
  const credit = `UPDATE account SET balance = balance + 5 WHERE id = 'bob'`;
  const { anchor, because: text } = explained(
    'partial',
    [deliver(1), step(1, credit, 'UPDATE 1'), step(1, UPDATE, undefined, { fault: 'crash' })],
    [wallet('lost')],
  );
  expect(anchor).toBe('#no-transaction');
  expect(text).toContain("consumer 1's UPDATE account stayed although what belongs to it never came");
});

test('a value was computed from what had changed since', () => {
  const read = `SELECT balance FROM wallet WHERE id = 'alice'`;
  const write = (n: number) => `UPDATE wallet SET balance = ${n} WHERE id = 'alice'`;
  const { anchor } = explained(
    'lost',
    [
      deliver(1),
      step(1, read, 'SELECT 1'),
      deliver(2, 1, undefined, [1]),
      step(2, read, 'SELECT 1'),
      step(2, write(107), 'UPDATE 1'),
      ack(2),
      step(1, write(105), 'UPDATE 1'),
      ack(1),
    ],
    [wallet('lost')],
    { messages: [{ id: 'm1' }, { id: 'm2' }], deliveries: [[0], [1]] },
  );
  expect(anchor).toBe('#lost-update');
});

test('a duplicate key is passed to the broker', () => {
  const { anchor, fix } = because(poisoned);
  expect(anchor).toBe('#duplicate-key-error');
  expect(fix).toBe(
    'treat a duplicate key as done: INSERT … ON CONFLICT DO NOTHING, and return when no row was inserted',
  );
});

test('the ledger is its own mark', () => {
  const look = `SELECT 1 FROM ledger WHERE message = 'm1'`;
  const add = `INSERT INTO ledger (message, amount) VALUES ('m1', 5)`;
  const found = explained(
    'double',
    [
      deliver(1),
      step(1, look, 'SELECT 0'),
      deliver(2, 2, 'AckWait ran out'),
      step(2, look, 'SELECT 0'),
      step(2, add, 'INSERT 0 1'),
      ack(2),
      step(1, add, 'INSERT 0 1'),
      ack(1),
    ],
    [{ table: 'ledger', kind: 'double', text: 'ledger' }],
  );
  expect(found.anchor).toBe('#check-then-act');
  expect(found.fix).toBe('put a unique key on ledger(message) and insert first, in the transaction of the effect');
});

test('a handler that tries again within one delivery', () => {
  const { anchor } = explained(
    'double',
    [
      deliver(1),
      step(1, CLAIM, 'INSERT 0 1'),
      step(1, UPDATE, 'UPDATE 1'),
      step(1, 'COMMIT', 'COMMIT', { fault: 'reply-lost' }),
      step(1, CLAIM, 'INSERT 0 0', { connection: 2 }),
      step(1, UPDATE, 'UPDATE 1', { connection: 2 }),
      step(1, 'COMMIT', 'COMMIT', { connection: 2 }),
      ack(1),
    ],
    [wallet('double')],
  );
  expect(anchor).toBe('#retried-transaction');
});

test('the effect comes after the commit of the mark', () => {
  const { anchor } = explained(
    'partial',
    [
      deliver(1),
      step(1, CLAIM, 'INSERT 0 1'),
      step(1, `INSERT INTO payment (amount) VALUES (5)`, 'INSERT 0 1'),
      step(1, 'COMMIT', 'COMMIT', { fault: 'reply-lost' }),
      { event: 'exited', who: 1 },
      deliver(2, 2, 'its consumer ended'),
      step(2, CLAIM, 'INSERT 0 0'),
      step(2, 'COMMIT', 'COMMIT'),
      ack(2),
    ],
    [wallet('lost')],
  );
  expect(anchor).toBe('#mark-first');
});

test('a row with a status that nobody finishes', () => {
  const claim = `INSERT INTO job (id, status) VALUES ('m1', 'processing') ON CONFLICT DO NOTHING`;
  const { anchor } = explained(
    'lost',
    [
      deliver(1),
      step(1, claim, 'INSERT 0 1', { fault: 'reply-lost' }),
      nack(1, CUT),
      deliver(1, 2, 'the handler failed'),
      step(1, claim, 'INSERT 0 0'),
      ack(1),
    ],
    [wallet('lost'), { table: 'job', kind: 'wrong', text: 'job' }],
  );
  expect(anchor).toBe('#mark-first');
});

test('who takes over an unfinished row does not stop the other', () => {
  const claim = `INSERT INTO job (id) VALUES ('m1') ON CONFLICT (id) DO UPDATE SET tries = job.tries + 1`;
  const { anchor } = explained(
    'double',
    [
      deliver(1),
      step(1, claim, 'INSERT 0 1'),
      deliver(2, 2, 'AckWait ran out'),
      step(2, claim, 'INSERT 0 1'),
      step(2, UPDATE, 'UPDATE 1'),
      ack(2),
      step(1, UPDATE, 'UPDATE 1'),
      ack(1),
    ],
    [wallet('double')],
  );
  expect(anchor).toBe('#lease-without-fence');
});

test('what is locked is skipped, and acked', () => {
  const { anchor } = explained(
    'lost',
    [
      deliver(1),
      step(1, `SELECT * FROM wallet WHERE id = 'alice' FOR UPDATE SKIP LOCKED`, 'SELECT 0'),
      step(1, 'COMMIT', 'COMMIT'),
      ack(1),
    ],
    [wallet('lost')],
  );
  expect(anchor).toBe('#skipped-lock');
});

test('an error of a read is swallowed, or that of another key', () => {
  const read = step(1, `SELECT 1 FROM wallet FOR UPDATE NOWAIT`, '55P03: could not obtain lock');
  const other = step(1, `INSERT INTO wallet (no) VALUES (1)`, '23505: duplicate key');
  for (const failed of [read, other]) {
    expect(explained('lost', [deliver(1), failed, ack(1)], [wallet('lost')]).anchor).toBe('#swallowed-error');
  }
});

test('a copy of what was done is refused for ever', () => {
  const again = [2, 3, 4].flatMap(n => [
    deliver(1, n, 'the handler failed'),
    step(1, CLAIM, 'INSERT 0 0'),
    nack(1, 'nack'),
  ]);
  const { anchor, because: text } = explained(
    'poisoned',
    [
      deliver(1),
      step(1, CLAIM, 'INSERT 0 1'),
      step(1, UPDATE, 'UPDATE 1', { fault: 'reply-lost' }),
      nack(1, CUT),
      ...again,
    ],
    [{ table: 'broker', kind: 'wrong', text: 'nack' }],
  );
  expect(anchor).toBe('#duplicate-refused');
  expect(text).toBe(
    "the message had been done by consumer 1's INSERT INTO processed, and each copy of it is refused instead of acked",
  );
});

test('a mark without a value is no mark', () => {
  const mark = 'INSERT INTO processed (id) VALUES (NULL) ON CONFLICT DO NOTHING';
  const { anchor } = explained(
    'double',
    [
      deliver(1),
      deliver(2, 2, 'AckWait ran out'),
      step(2, mark, 'INSERT 0 1'),
      step(2, UPDATE, 'UPDATE 1'),
      ack(2),
      step(1, mark, 'INSERT 0 1'),
      step(1, UPDATE, 'UPDATE 1'),
      ack(1),
    ],
    [wallet('double'), { table: 'processed', kind: 'double', text: 'processed' }],
  );
  expect(anchor).toBe('#no-unique-key');
});

test('a key that changes from delivery to delivery', () => {
  const mark = (n: number) => `INSERT INTO processed (id, attempt) VALUES ('m1', ${n}) ON CONFLICT DO NOTHING`;
  const { anchor } = explained(
    'double',
    [
      deliver(1),
      step(1, mark(1), undefined, { fault: 'crash' }),
      deliver(2, 2, 'its consumer crashed'),
      step(2, mark(2), 'INSERT 0 1'),
      step(2, UPDATE, 'UPDATE 1'),
      ack(2),
    ],
    [{ table: 'processed', kind: 'double', text: 'processed' }],
  );
  expect(anchor).toBe('#unstable-key');
});

test('a guard that knows the last message only', () => {
  const pay = (id: string, n: number) =>
    `UPDATE wallet SET balance = balance + ${n}, last = '${id}' WHERE id = 'alice' AND last IS DISTINCT FROM '${id}'`;
  const { anchor } = explained(
    'double',
    [
      deliver(1),
      step(1, pay('m1', 5), 'UPDATE 1'),
      ack(1),
      deliver(1, 1, undefined, [1]),
      step(1, pay('m2', 7), 'UPDATE 1'),
      ack(1),
      deliver(1, 2, 'the ack was lost with its connection'),
      step(1, pay('m1', 5), 'UPDATE 1'),
      ack(1),
    ],
    [wallet('double')],
    { messages: [{ id: 'm1' }, { id: 'm2' }], deliveries: [[0], [1]] },
  );
  expect(anchor).toBe('#only-the-last');
});

test('a connection that came back without a ROLLBACK', () => {
  const again = [2, 3, 4].flatMap(n => [
    deliver(1, n, 'the handler failed'),
    nack(1, 'error: current transaction is aborted, commands ignored'),
  ]);
  const { anchor, because: text } = explained(
    'poisoned',
    [deliver(1), step(1, UPDATE, '55P03: could not obtain lock'), nack(1, 'error: could not obtain lock'), ...again],
    [{ table: 'broker', kind: 'wrong', text: 'fails at every redelivery' }],
  );
  expect(anchor).toBe('#failed-transaction');
  expect(text).toMatch(/^consumer 1's UPDATE wallet had failed, and its connection went back without a ROLLBACK/);
});

test('a duplicate that is never acked', () => {
  const again = [2, 3, 4].flatMap(n => [deliver(1, n, 'it was never acked'), step(1, CLAIM, 'INSERT 0 0')]);
  const events = [deliver(1), step(1, CLAIM, 'INSERT 0 1', { fault: 'reply-lost' }), nack(1, CUT), ...again];
  const broker: Difference = { table: 'broker', kind: 'wrong', text: 'never acked' };
  expect(explained('poisoned', events, [broker], { manualAck: true }).anchor).toBe('#never-acked');
});

test('a claim that nobody gave back', () => {
  const claim = (who: number, result: string) => redis(who, 'SET lock:m1 <uuid> NX', result);
  const again = [2, 3, 4, 5, 6].flatMap(n => [
    deliver(2, n, 'the handler failed'),
    claim(2, '(nil)'),
    nack(2, 'Error: busy'),
  ]);
  const { anchor, because: text } = explained(
    'poisoned',
    [deliver(1), claim(1, 'OK'), step(1, UPDATE, undefined, { fault: 'crash' }), ...again],
    [{ table: 'broker', kind: 'wrong', text: 'fails at every redelivery: Error: busy' }],
  );
  expect(anchor).toBe('#stale-claim');
  expect(text).toMatch(/^what consumer 1's redis SET lock:m1 had claimed nobody gave back when it failed/);
});

test('a dead client is used on and on', () => {
  const again = [2, 3, 4, 5, 6].flatMap(n => [
    deliver(1, n, 'the handler failed'),
    nack(1, 'Error: Client has encountered a connection error'),
  ]);
  const { anchor } = explained(
    'poisoned',
    [deliver(1), step(1, UPDATE, undefined, { fault: 'reset' }), nack(1, CUT), ...again],
    [{ table: 'broker', kind: 'wrong', text: 'fails at every redelivery' }],
  );
  expect(anchor).toBe('#dead-connection');
});

test('stuck at a lock, or never acked', () => {
  const broker: Difference = { table: 'broker', kind: 'wrong', text: 'stuck' };
  const locked = explained(
    'stuck',
    [
      deliver(1),
      step(1, UPDATE, 'UPDATE 1'),
      deliver(2, 2, 'AckWait ran out'),
      step(2, UPDATE, undefined, { waited: true }),
    ],
    [broker],
  );
  expect(locked.because).toBe(
    "consumer 2's UPDATE wallet waits for a lock that a transaction holds which nobody commits or rolls back",
  );
  expect(explained('stuck', [deliver(1), deliver(1, 2, 'it was never acked')], [broker]).anchor).toBe('#never-acked');
});

test('a later message took effect first', () => {
  expect(explained('reordered', [deliver(1), step(1, UPDATE, 'UPDATE 1'), ack(1)], [wallet('wrong')]).anchor).toBe(
    '#order',
  );
});

test('what no rule knows is said in general', () => {
  const { anchor, because: text } = explained('lost', [deliver(1), ack(1)], [wallet('lost')]);
  expect(anchor).toBe('#in-general');
  expect(text).toBe('the message is done for the broker, and wallet is not as one delivery leaves it');
});

test('where the trace says what is in a transaction, nothing is guessed', () => {
  const events = (inTransaction: boolean): TraceEvent[] => [
    deliver(1),
    step(1, CLAIM, 'INSERT 0 1', { inTransaction: false }),
    step(1, UPDATE, 'UPDATE 1', { inTransaction }),
    step(1, 'COMMIT', undefined, { fault: 'crash' }),
    deliver(2, 2, 'its consumer crashed'),
    step(2, CLAIM, 'INSERT 0 0', { inTransaction: false }),
    ack(2),
  ];
  expect(explained('lost', events(true), [wallet('lost')]).anchor).toBe('#mark-first');
});

test('the sections of the page are listed once each', () => {
  expect(new Set(ANCHORS).size).toBe(ANCHORS.length);
  expect(ANCHORS.every(anchor => /^#[a-z-]+$/.test(anchor))).toBe(true);
});

test('the record of the message was gone when the copy came', () => {
  const late = { ...deliver(1, 2, 'the ack was lost with its connection'), evicted: true } as TraceEvent;
  const { anchor, because: text } = explained(
    'double',
    [deliver(1), step(1, UPDATE, 'UPDATE 1'), ack(1), late, step(1, UPDATE, 'UPDATE 1'), ack(1)],
    [wallet('double')],
  );
  expect(anchor).toBe('#evicted');
  expect(text).toMatch(/^the record of the message was gone when .* came, and nothing else refused it$/);
});
