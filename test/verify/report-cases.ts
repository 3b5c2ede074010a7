import { BROKERS } from '../../src/verify/brokers.ts';
import { DEFAULT_BOUNDS } from '../../src/verify/options.ts';
import type { Difference, VerdictName } from '../../src/verify/oracle.ts';
import type { Plan } from '../../src/verify/plan.ts';
import type { Conviction, Report } from '../../src/verify/report.ts';
import type { TraceEvent } from '../../src/verify/trace.ts';

type Step = Extract<TraceEvent, { event: 'step' }>;
type More = Partial<Step> & { readonly inTransaction?: boolean };

/** As far as reports look at it. */
export const plan = {
  name: './pay.ts',
  code: { kind: 'module', file: '/app/pay.ts', url: 'file:///app/pay.ts', export: undefined },
  messages: [{ id: 'm1', account: 'alice', amount: 5 }],
  deliveries: [[0]],
  schema: 'CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL)',
  seed: `INSERT INTO wallet VALUES ('alice', 100)`,
  rules: BROKERS.rabbitmq,
  manualAck: false,
  ignore: [],
  accept: [],
  evicts: [],
  prune: '',
  order: 'any',
} as Partial<Plan> as Plan;

export function deliver(who: number, attempt = 1, because?: string, messages: readonly number[] = [0]): TraceEvent {
  return { event: 'deliver', who, messages, attempt, because, ahead: false, evicted: false };
}

/** A statement that was carried out, unless `more` says otherwise. */
export function step(who: number, text: string, result: string | undefined, more: More = {}): TraceEvent {
  const failed = result !== undefined && /^[0-9A-Z]{5}: /.test(result);
  const event = {
    event: 'step',
    who,
    place: 'postgres',
    connection: 1,
    text,
    result,
    failed,
    fault: undefined,
    waited: false,
    paused: false,
  } as const;
  return { ...event, ...more };
}

export const ack = (who: number): TraceEvent => step(who, 'ack', '', { place: 'broker', connection: 0 });
export const nack = (who: number, error: string): TraceEvent =>
  step(who, `nack (${error})`, '', { place: 'broker', connection: 0 });
export const unblocked = (who: number, text: string, result: string): TraceEvent => ({
  event: 'unblocked',
  who,
  text,
  result,
  paused: false,
});
export const land = (who: number, text: string, result: string): TraceEvent => ({
  event: 'land',
  who,
  place: 'postgres',
  text,
  result,
});

export function convicted(
  verdict: VerdictName,
  events: readonly TraceEvent[],
  differences: readonly Difference[],
  more: Partial<Conviction> & { readonly plan?: Partial<Plan> } = {},
): Report {
  const { plan: planned, ...rest } = more;
  const conviction: Conviction = {
    verdict,
    deviation: { verdict, differences },
    trace: { events, decisionOf: events.map((_, i) => i) },
    token: '0a1b2c3d-AYM',
    cost: 1,
    sealedAt: undefined,
    executions: 10,
    ms: 400,
    ...rest,
  };
  return report({ verdict: 'convicted', convictions: [conviction], plan: { ...plan, ...planned } });
}

export function report(more: Partial<Report>): Report {
  return {
    verdict: 'once',
    why: undefined,
    handler: './pay.ts',
    convictions: [],
    executions: 412,
    walks: 0,
    ms: 6_100,
    completeTo: more.verdict === 'convicted' ? 0 : 2,
    bounds: DEFAULT_BOUNDS,
    readsClock: false,
    plan,
    masked: [],
    assertOnce: () => undefined,
    ...more,
  };
}

export const UPDATE = `UPDATE wallet SET balance = balance + 5 WHERE id = 'alice'`;
export const LOOK = `SELECT 1 FROM processed WHERE id = 'm1'`;
export const MARK = `INSERT INTO processed (id) VALUES ('m1')`;
export const CLAIM = `${MARK} ON CONFLICT DO NOTHING`;
const CUT = 'Error: Connection terminated unexpectedly';
const TIMEOUT = BROKERS.rabbitmq.overlapBecause;

const TWICE: Difference = {
  table: 'wallet',
  kind: 'double',
  text: 'wallet.balance  105 expected, 110 found (+5 applied 2×)',
};
const NEVER: Difference = {
  table: 'wallet',
  kind: 'lost',
  text: 'wallet.balance  105 expected, 100 found (+5 not applied)',
};

export const naive = convicted(
  'double',
  [
    deliver(1),
    step(1, UPDATE, 'UPDATE 1', { fault: 'reply-lost' }),
    nack(1, CUT),
    deliver(1, 2, 'the handler failed'),
    step(1, UPDATE, 'UPDATE 1', { connection: 2 }),
    ack(1),
  ],
  [TWICE],
  { sealedAt: 1 },
);

/** Two that look before either writes; without a transaction, and with a unique key. */
export const overlap = convicted(
  'double',
  [
    deliver(1),
    step(1, LOOK, 'SELECT 0'),
    deliver(2, 2, TIMEOUT),
    step(2, LOOK, 'SELECT 0'),
    step(2, UPDATE, 'UPDATE 1'),
    step(2, MARK, 'INSERT 0 1'),
    ack(2),
    step(1, UPDATE, 'UPDATE 1'),
    step(1, MARK, '23505: duplicate key value violates unique constraint "processed_pkey"'),
    nack(1, 'error: duplicate key value violates unique constraint "processed_pkey"'),
  ],
  [TWICE],
  { sealedAt: 3 },
);

/** The same in a transaction each, and without a unique key. */
export const noKey = convicted(
  'double',
  [
    deliver(1),
    step(1, LOOK, 'SELECT 0'),
    deliver(2, 2, TIMEOUT),
    step(2, LOOK, 'SELECT 0'),
    step(2, UPDATE, 'UPDATE 1'),
    step(1, UPDATE, undefined, { waited: true }),
    step(2, MARK, 'INSERT 0 1'),
    step(2, 'COMMIT', 'COMMIT'),
    unblocked(1, UPDATE, 'UPDATE 1'),
    ack(2),
    step(1, MARK, 'INSERT 0 1'),
    step(1, 'COMMIT', 'COMMIT'),
    ack(1),
  ],
  [TWICE, { table: 'processed', kind: 'double', text: 'processed  2 rows instead of 1; one too many: id=m1' }],
  { sealedAt: 3 },
);

export const markFirst = convicted(
  'partial',
  [
    deliver(1),
    step(1, CLAIM, 'INSERT 0 1'),
    step(1, UPDATE, undefined, { fault: 'crash' }),
    deliver(2, 2, 'its consumer crashed'),
    step(2, CLAIM, 'INSERT 0 0'),
    ack(2),
  ],
  [NEVER],
  { sealedAt: 2 },
);

const CHARGE = 'POST /charges {"account":"alice","amount":5}';
export const httpInTransaction = convicted(
  'double',
  [
    deliver(1),
    step(1, CLAIM, 'INSERT 0 1'),
    step(1, CHARGE, '201', { place: 'http', connection: 0 }),
    step(1, 'COMMIT', undefined, { fault: 'crash' }),
    deliver(2, 2, 'its consumer crashed'),
    step(2, CLAIM, 'INSERT 0 1'),
    step(2, CHARGE, '201', { place: 'http', connection: 0 }),
    step(2, 'COMMIT', 'COMMIT'),
    ack(2),
  ],
  [{ table: 'http', kind: 'double', text: 'http  2 rows instead of 1; one too many: POST /charges' }],
  { sealedAt: 2 },
);

export const landing = convicted(
  'double',
  [
    deliver(1),
    step(1, LOOK, 'SELECT 0'),
    step(1, UPDATE, undefined, { fault: 'in-flight' }),
    deliver(2, 2, 'its consumer crashed'),
    step(2, LOOK, 'SELECT 0'),
    step(2, UPDATE, 'UPDATE 1'),
    step(2, MARK, 'INSERT 0 1'),
    ack(2),
    land(1, UPDATE, 'UPDATE 1'),
  ],
  [TWICE],
  { sealedAt: 8 },
);

const refused = (attempt: number): TraceEvent[] => [
  deliver(1, attempt, 'the handler failed'),
  step(1, MARK, '23505: duplicate key value violates unique constraint "processed_pkey"', { connection: attempt }),
  nack(1, 'error: duplicate key value violates unique constraint "processed_pkey"'),
];
export const poisoned = convicted(
  'poisoned',
  [
    deliver(1),
    step(1, MARK, 'INSERT 0 1'),
    step(1, UPDATE, 'UPDATE 1'),
    step(1, 'COMMIT', 'COMMIT', { fault: 'reply-lost' }),
    nack(1, CUT),
    ...[2, 3, 4, 5, 6, 7].flatMap(refused),
  ],
  [
    {
      table: 'broker',
      kind: 'wrong',
      text: 'fails at every redelivery: error: duplicate key value violates unique constraint "processed_pkey"',
    },
  ],
  { sealedAt: 3 },
);

export const once = report({ masked: ['ledger.created_at'] });
export const unknown = report({
  verdict: 'unknown',
  why: 'the handler uses something that the verifier cannot hold: a connection to api.example.com:443',
});

export const CONVICTED: Readonly<Record<string, Report>> = {
  naive,
  overlap,
  noKey,
  markFirst,
  httpInTransaction,
  landing,
  poisoned,
};
