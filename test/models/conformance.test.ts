import { Pool, type PoolClient } from 'pg';
import { describe, expect, test } from 'vitest';
import { createInbox } from '../../src/index.ts';
import { type Clock, systemClock } from '../../src/ports/clock.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { type HandlerFactory, verify } from '../../src/verify/index.ts';
import type { Trace, TraceEvent } from '../../src/verify/trace.ts';
import { isPath, kindOf } from './conformance.ts';
import { type Action, NOTHING, next, type State, wrong } from './inbox-model.ts';

const LONG = process.env.NEVERTWICE_KILLS !== undefined;

const hasty: Clock = {
  ...systemClock,
  sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 1), signal),
  random: () => 0.5,
};

type Payment = { readonly id: string; readonly account: string; readonly amount: number };

function wallet(pipeline: boolean, mutate: (text: string) => string = text => text): HandlerFactory {
  return async env => {
    const pool = new Pool({ connectionString: env.DATABASE_URL, pipeline, max: 3 });
    pool.on('error', () => undefined);
    pool.on('connect', client => mutated(client, mutate));
    const inbox = createInbox({ name: 'wallet', store: postgresStore(pool), clock: hasty });
    await inbox.open();
    return {
      handle: (message: Payment) =>
        inbox.process({ id: message.id, body: message }, async ({ body }, { sql }) => {
          await sql`UPDATE wallet SET balance = balance + ${body.amount} WHERE id = ${body.account}`;
        }),
      close: () => pool.end(),
    };
  };
}

function mutated(client: PoolClient, mutate: (text: string) => string): void {
  const query = client.query.bind(client) as (...args: unknown[]) => unknown;
  client.query = ((first: string | { text: string }, ...rest: unknown[]) =>
    query(typeof first === 'string' ? mutate(first) : { ...first, text: mutate(first.text) }, ...rest)) as never;
}

const payments = [
  { id: 'm1', account: 'alice', amount: 5 },
  { id: 'm2', account: 'alice', amount: 7 },
];

/** The stories of all executions that the verifier's search plays. */
async function storiesOf(handler: HandlerFactory, total: number, messages = payments.slice(0, 1)) {
  const stories: Trace[] = [];
  const report = await verify({
    messages,
    schema: 'CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL)',
    seed: `INSERT INTO wallet VALUES ('alice', 100)`,
    bounds: { total },
    budgetMs: LONG ? 600_000 : 100_000,
    handler,
    onExecution: story => stories.push(story),
  });
  return { stories, report };
}

const timeout = LONG ? 700_000 : 120_000;

test.each([
  { pipeline: false, messages: 1, total: LONG ? 3 : 2 },
  { pipeline: true, messages: 2, total: LONG ? 2 : 1 },
])(
  'every execution is a path of the inbox model: $messages messages, pipeline $pipeline',
  { timeout },
  async ({ pipeline, messages, total }) => {
    const { stories, report } = await storiesOf(wallet(pipeline), total, payments.slice(0, messages));
    expect(report.convictions).toEqual([]);
    expect(stories.length).toBeGreaterThan(50);
    const seen = new Set<string>();
    for (const story of stories) {
      const read = isPath(story);
      expect(read, told(story)).toMatchObject({ path: true });
      if (read.path) for (const { action } of read.actions) seen.add(action);
    }
    // Whatever the model has was done, or it was not compared.
    expect([...seen].sort()).toEqual([...ACTIONS].sort());
  },
);

// Real executions of a wrong library: a reading that lets them pass shows nothing.
test('with a claim that takes a copy like the first, an execution is no path', { timeout }, async () => {
  const { stories, report } = await storiesOf(
    wallet(false, text =>
      text.replace(
        /ON CONFLICT DO NOTHING(?=\s+RETURNING key)/,
        'ON CONFLICT (consumer, key) DO UPDATE SET at = now()',
      ),
    ),
    1,
  );
  expect(report.convictions[0]?.verdict, report.why).toBe('double');
  const read = isPath(stories.at(-1)!);
  expect(read, told(stories.at(-1)!)).toMatchObject({
    path: false,
    why: expect.stringContaining('an effect of a message that is not freshly claimed'),
  });
});

test('the statement of the claim is known by its text', async () => {
  const { stories } = await storiesOf(wallet(true), 0);
  const kinds = stories[0]!.events.flatMap(event =>
    event.event === 'step' && event.place === 'postgres' ? [kindOf(event.text)] : [],
  );
  expect(kinds).toEqual(['claim', 'effect', 'commit']);
});

describe('what is no path', () => {
  const CLAIM = 'INSERT INTO "nevertwice"."inbox" …';
  const EFFECT = 'UPDATE wallet …';
  const deliver = (who: number): TraceEvent => ({
    event: 'deliver',
    who,
    messages: [0],
    attempt: 1,
    because: undefined,
    ahead: false,
    evicted: false,
  });
  const step = (who: number, text: string, more: Partial<Extract<TraceEvent, { event: 'step' }>> = {}): TraceEvent => ({
    event: 'step',
    who,
    place: text === 'ack' || text === 'nack' ? 'broker' : 'postgres',
    connection: 1,
    text,
    result: '1',
    failed: false,
    fault: undefined,
    waited: false,
    paused: false,
    ...more,
  });
  const once = (who: number) => [deliver(who), step(who, CLAIM), step(who, EFFECT), step(who, 'COMMIT')];

  test('the plain delivery is one', () => {
    expect(isPath({ events: [...once(1), step(1, 'ack')] })).toMatchObject({ path: true });
  });

  test.each<{ what: string; events: readonly TraceEvent[]; why: string }>([
    {
      what: 'an ack before the commit',
      events: [deliver(1), step(1, CLAIM), step(1, EFFECT), step(1, 'ack')],
      why: 'an ack before the worker has heard of a commit',
    },
    {
      what: 'an ack of a commit whose reply was lost',
      events: [deliver(1), step(1, CLAIM), step(1, EFFECT), step(1, 'COMMIT', { fault: 'reply-lost' }), step(1, 'ack')],
      why: 'an ack before the worker has heard of a commit',
    },
    {
      what: 'two commits of one message',
      events: [...once(1), step(1, 'ack'), ...once(2)],
      why: 'an effect of a message that is not freshly claimed',
    },
    {
      what: 'two transactions that have claimed at the same time',
      events: [deliver(1), step(1, CLAIM), deliver(2), step(2, CLAIM)],
      why: 'a claim that does not wait for the one who has claimed before',
    },
    {
      what: 'a row without its effect',
      events: [deliver(1), step(1, CLAIM), step(1, 'COMMIT')],
      why: 'a commit of a claim without its effect',
    },
    {
      what: 'an effect without a transaction',
      events: [deliver(1), step(1, EFFECT)],
      why: 'a statement outside a transaction that has claimed',
    },
    {
      what: 'two effects',
      events: [deliver(1), step(1, CLAIM), step(1, EFFECT), step(1, EFFECT), step(1, 'COMMIT')],
      why: '2 effects of message 0',
    },
    { what: 'an end without an ack', events: once(1), why: 'worker 1 is at work' },
    { what: 'a message given back and left', events: [deliver(1), step(1, 'nack')], why: 'message 0 is not acked' },
  ])('$what', ({ events, why }) => {
    const read = isPath({ events });
    expect(read.path).toBe(false);
    expect(read.path ? '' : read.why).toContain(why);
  });
});

const ACTIONS: readonly Action['action'][] = [
  'deliver',
  'claim',
  'carry-out',
  'effect',
  'look-up',
  'commit',
  'hear',
  'lose',
  'undo',
  'crash',
  'ack',
  'ack-lost',
  'nack',
];

// A function that allows too much would call any story a path. So it is searched like the model: two workers, one message,
// three transactions at a time, one effect each.
test('all that the function allows is right', () => {
  const seen = new Set<string>();
  const open: State[] = [NOTHING];
  const taken = new Set<string>();
  for (let state = open.pop(); state !== undefined; state = open.pop()) {
    for (const action of imaginable(state)) {
      const after = next(state, action);
      if (typeof after === 'string') continue;
      const why = wrong(after);
      if (why !== undefined) expect.fail(`${why}: ${JSON.stringify(after)}`);
      taken.add(action.action);
      const key = keyOf(after);
      if (seen.has(key)) continue;
      seen.add(key);
      open.push(after);
    }
  }
  expect([...taken].sort()).toEqual([...ACTIONS].sort());

  expect(seen.size).toBeGreaterThan(1_000);
});

function imaginable(state: State): readonly Action[] {
  const names = ['a', 'b', 'c'];
  const free = names.find(name => state.sessions[name] === undefined);
  return [
    ...[1, 2].flatMap((worker): Action[] => [
      { action: 'deliver', worker, message: 0 },
      ...(free === undefined ? [] : [{ action: 'claim', worker, session: free } as const]),
      { action: 'crash', worker },
      { action: 'ack', worker },
      { action: 'ack-lost', worker },
      { action: 'nack', worker },
    ]),
    ...names.flatMap((session): Action[] => [
      { action: 'carry-out', session },
      ...((state.sessions[session]?.effects ?? 0) === 0 ? [{ action: 'effect', session } as const] : []),
      { action: 'look-up', session },
      { action: 'commit', session },
      { action: 'hear', session },
      { action: 'lose', session },
      { action: 'undo', session },
    ]),
  ];
}

function keyOf({ rows, effects, acked, sessions, workers }: State): string {
  const { a, b, c } = sessions;
  return JSON.stringify([rows, effects, acked, a ?? 0, b ?? 0, c ?? 0, workers[1] ?? 0, workers[2] ?? 0]);
}

function told({ events }: Trace): string {
  return events
    .map((event, i) => {
      const { who } = event;
      if (event.event === 'deliver') return `${i} deliver to ${who}`;
      if (event.event === 'exited') return `${i} ${who} exited`;
      const rest = event.event === 'step' ? `${event.fault ?? ''} ${event.waited ? 'waits' : ''}` : '';
      return `${i} ${event.event} ${who} ${event.text.slice(0, 60)} → ${event.result} ${rest}`;
    })
    .join('\n');
}
