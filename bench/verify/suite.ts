import { fileURLToPath } from 'node:url';
import { type Bounds, type Trace, type VerifyOptions, verify } from '../../src/verify/index.ts';
import { startPostgres } from '../../src/verify/servers/postgres-server.ts';
import type { Result } from '../contest.ts';
import type { Suite } from '../suites.ts';
import { CORPUS, playCorpus } from './corpus.ts';
import { inboxFactory } from './in-process.ts';

const corpus = new URL('../../examples/verify/', import.meta.url);
const RIGHT = fileURLToPath(new URL('ok-inbox-tx.ts', corpus));
const COMMON = ['naive.ts', 'check-then-act.ts', 'mark-first.ts'].map(file => fileURLToPath(new URL(file, corpus)));

const NOTHING: Bounds = {
  total: 0,
  duplicates: 0,
  crashes: 0,
  faults: 0,
  inFlight: 0,
  preemptions: 0,
  clocks: 0,
  evictions: 0,
};
/** Overlapping copies in any order, and no process ends. */
const INTERLEAVED: Bounds = { ...NOTHING, total: 3, duplicates: 1, preemptions: 2 };
/** Each but the first has a SIGKILL. */
const KILLED: Bounds = { ...NOTHING, total: 1, crashes: 1 };

const rows = [
  { id: 'verify.inProcess', what: 'one execution, handler in this process, all troubles', unit: 'ms', atMost: 3.33 },
  { id: 'verify.process', what: 'one execution, handler in processes, overlapping copies', unit: 'ms', atMost: 10 },
  { id: 'verify.kill', what: 'one execution with a SIGKILL', unit: 'ms', atMost: 66.7 },
  {
    id: 'verify.story',
    what: 'first story of the common mistakes, from the start, server included',
    unit: 'ms',
    atMost: 2_000,
  },
  {
    id: 'verify.corpus',
    what: 'all wrong handlers of examples/verify, until each is convicted',
    unit: 's',
    atMost: 60,
  },
] as const;

export const verifySuite: Suite = {
  name: 'verify',
  about: 'how fast the verifier plays executions, and how soon it has a story',
  ids: rows.map(({ id }) => id),
  async run({ quick, wants, say }) {
    const rounds = quick ? 1 : 3;
    const server = await startPostgres({ durable: false });
    const measures: Record<(typeof rows)[number]['id'], () => Promise<number>> = {
      'verify.inProcess': () =>
        msPerExecution({ handler: inboxFactory, ...inboxFixture, postgres: server.url, concurrency: 2 }),
      'verify.process': () =>
        msPerExecution({ handler: RIGHT, postgres: server.url, bounds: INTERLEAVED, concurrency: 2 }),
      'verify.kill': () => msPerExecution({ handler: RIGHT, postgres: server.url, bounds: KILLED, concurrency: 2 }),
      'verify.story': async () => {
        const times = [];
        for (const handler of COMMON) times.push(await msToStory(handler));
        return Math.max(...times);
      },
      'verify.corpus': () => secondsForCorpus(server.url, say),
    };
    try {
      const results: Result[] = [];
      for (const { id, what, unit, atMost } of rows.filter(row => wants(row.id))) {
        const values = [];
        for (let round = 0; round < (id === 'verify.corpus' ? 1 : rounds); round++) values.push(await measures[id]());
        values.sort((x, y) => x - y);
        const value = values[Math.floor(values.length / 2)]!;
        const spread = (values.at(-1)! - values[0]!) / value;
        results.push({ id, what, value, unit, against: null, ratio: null, spread, target: { atMost } });
      }
      return results;
    } finally {
      await server.stop();
    }
  },
};

const inboxFixture = {
  message: { id: 'm1', account: 'alice', amount: 5 },
  schema:
    'CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL); CREATE TABLE processed (id text PRIMARY KEY)',
  seed: `INSERT INTO wallet VALUES ('alice', 100)`,
};

/** From the first to the last execution of the search: what is learned before it is paid once. */
async function msPerExecution(options: VerifyOptions): Promise<number> {
  const at: number[] = [];
  const onExecution = (_: Trace) => void at.push(performance.now());
  const report = await verify({ ...options, onExecution });
  if (report.verdict !== 'once') throw new Error(`${report.handler} was not acquitted: ${report.why}`);
  return (at.at(-1)! - at[0]!) / (at.length - 1);
}

async function msToStory(handler: string): Promise<number> {
  const start = performance.now();
  const report = await verify({ handler });
  const [story] = report.convictions;
  if (story === undefined) throw new Error(`${handler} was not convicted: ${report.why}`);
  // Until the failure was seen, with the server's start: the confirmation that follows takes as long again.
  return performance.now() - start - (report.ms - story.ms);
}

async function secondsForCorpus(postgres: string, say: (line: string) => void): Promise<number> {
  const start = performance.now();
  const played = await playCorpus(CORPUS.wrong, { postgres });
  const seconds = (performance.now() - start) / 1_000;
  for (const { file, report } of played)
    if (report.verdict !== 'convicted') say(`${file} was not convicted: ${report.why ?? 'acquitted'}`);
  const convicted = played.filter(({ report }) => report.verdict === 'convicted').length;
  const longest = played.reduce((x, y) => (x.ms > y.ms ? x : y));
  say(
    `${convicted} of ${played.length} wrong handlers convicted; the longest was ${longest.file} (${Math.round(longest.ms)} ms)`,
  );
  return seconds;
}
