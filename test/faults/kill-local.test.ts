import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { KILLS, timeLimit } from '../support/counts.ts';
import { SEED, seeded } from '../support/random.ts';
import { endsWithin, until } from '../support/until.ts';
import { LOCAL_PLACES, type LocalJob, type LocalPlace } from './local-places.ts';

const CHILD = fileURLToPath(new URL('local-child.ts', import.meta.url));
const ENDS_WITHIN_MS = 30_000;
const LEASE_MS = 150;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'nevertwice-kill-local-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

interface Told {
  readonly place: LocalPlace;
  readonly ids: readonly string[];
}

function start(job: LocalJob): ChildProcess {
  return spawn(process.execPath, [CHILD, JSON.stringify(job)], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, NODE_COMPILE_CACHE: join(folder, 'cache') },
  });
}

async function ending(child: ChildProcess): Promise<{ code: number | null; signal: string | null; said: string }> {
  const said = text(child.stdout!);
  const [code, signal] = (await endsWithin(ENDS_WITHIN_MS, 'a process ends', once(child, 'close'))) as [
    number | null,
    string | null,
  ];
  return { code, signal, said: await said };
}

function writeInput(messages: number): { readonly input: string; readonly ids: readonly string[] } {
  const ids = Array.from({ length: messages }, (_, i) => `payment-${i}`);
  const input = join(folder, 'payments.jsonl');
  writeFileSync(input, ids.map(id => `${JSON.stringify({ id, body: { amount: 500 } })}\n`).join(''));
  return { input, ids };
}

/** Effects as lines, and what each death left behind: done, and not recorded as done. Just that is to be done again. */
class Books {
  readonly job: LocalJob;
  readonly #lines = join(folder, 'effects');
  readonly #again = new Map<string, number>();
  #read = 0;

  constructor(input: string) {
    writeFileSync(this.#lines, '');
    this.job = { path: join(folder, 'leases.db'), input, effects: { lines: this.#lines }, leaseMs: LEASE_MS };
  }

  get bytes(): number {
    return statSync(this.#lines).size;
  }

  get lines(): readonly (readonly [id: string, token: string])[] {
    const lines = readFileSync(this.#lines, 'utf8').split('\n').slice(0, -1);
    return lines.map(line => line.split(' ') as [string, string]);
  }

  /** Called when a process has died: its effects that the file of leases does not hold as done. */
  afterDeath(): ReadonlySet<string> {
    const lines = this.lines;
    const database = new DatabaseSync(this.job.path);
    const open = database.prepare('SELECT CAST(substr(key, 2) AS TEXT) AS id FROM ids WHERE state <> 2').all();
    database.close();
    const notDone = new Set(open.map(({ id }) => id as string));
    const left = new Set(lines.slice(this.#read).flatMap(([id]) => (notDone.has(id) ? [id] : [])));
    this.#read = lines.length;
    for (const id of left) this.#again.set(id, (this.#again.get(id) ?? 0) + 1);
    return left;
  }

  /** What is wrong at the end, one line each. */
  faults(ids: readonly string[]): readonly string[] {
    const tokens = new Map<string, string[]>(ids.map(id => [id, []]));
    for (const [id, token] of this.lines) tokens.get(id)!.push(token);
    return [...tokens].flatMap(([id, own]) => {
      const right = 1 + (this.#again.get(id) ?? 0);
      const rising = own.every((token, i) => i === 0 || BigInt(token) > BigInt(own[i - 1]!));
      return [
        ...(own.length === right ? [] : [`${id}: its effect happened ${own.length} times and should ${right} times`]),
        ...(rising ? [] : [`${id}: its tokens do not rise: ${own.join(', ')}`]),
      ];
    });
  }
}

test(
  `C79 C80: ${KILLS} kills, seed ${SEED}: nothing is lost, and only what was done and not yet recorded is done again`,
  async () => {
    const random = seeded(SEED);
    const { input, ids } = writeInput(12 * KILLS + 12);
    const books = new Books(input);
    const deaths = new Set<LocalPlace>();
    for (let i = 0; i < KILLS; i++) {
      const place = LOCAL_PLACES[i % LOCAL_PLACES.length]!;
      const fault = { signal: 'SIGKILL', place, nth: 1 + random.below(2) } as const;
      const { signal, said } = await ending(start({ ...books.job, fault }));
      expect(signal, `a death at ${place}`).toBe('SIGKILL');
      const told = JSON.parse(said) as Told;
      const left = books.afterDeath();
      if (place === 'effect after') expect([...left], place).toEqual(expect.arrayContaining([...told.ids]));
      // The message before it may still be on its way into the file; before and after the handlers nothing is.
      else if (place !== 'effect before') expect([...left], place).toEqual([]);
      deaths.add(told.place);
    }
    expect(await ending(start(books.job))).toEqual({ code: 0, signal: null, said: '' });
    if (KILLS >= LOCAL_PLACES.length) expect(deaths.size).toBe(LOCAL_PLACES.length);
    expect(books.faults(ids)).toEqual([]);
  },
  timeLimit(3_000),
);

test(
  `C80: ${KILLS} kills at any moment, seed ${SEED}: nothing is lost, and only what was done and not yet recorded is done again`,
  async () => {
    const random = seeded(SEED);
    const { input, ids } = writeInput(150 * KILLS);
    const books = new Books(input);
    for (let i = 0; i < KILLS; i++) {
      const enough = books.bytes + random.below(2_000);
      const child = start(books.job);
      const ended = ending(child);
      await until('effects of the next process', () => books.bytes > enough, ENDS_WITHIN_MS);
      child.kill('SIGKILL');
      expect((await ended).signal).toBe('SIGKILL');
      // One handler at a time; what those before it have done is recorded while it is at work.
      expect(books.afterDeath().size).toBeLessThanOrEqual(4);
    }
    expect(await ending(start(books.job))).toEqual({ code: 0, signal: null, said: '' });
    expect(books.faults(ids)).toEqual([]);
  },
  timeLimit(3_000),
);

test.skipIf(process.platform === 'win32')(
  'C85: an owner that slept past its lease writes with a token that is refused, and completes nothing',
  async () => {
    const { input } = writeInput(1);
    const fenced = join(folder, 'effects.db');
    const job: LocalJob = { path: join(folder, 'leases.db'), input, effects: { fenced }, leaseMs: LEASE_MS };
    const asleep = start({ ...job, fault: { signal: 'SIGSTOP', place: 'effect before', nth: 1 } });
    try {
      await endsWithin(ENDS_WITHIN_MS, 'the first owner sleeps', once(asleep.stdout!, 'data'));
      expect(await ending(start(job))).toEqual({ code: 0, signal: null, said: '' });
      const awake = ending(asleep);
      asleep.kill('SIGCONT');
      expect(await awake).toMatchObject({ code: 0, signal: null });
    } finally {
      asleep.kill('SIGKILL');
    }
    const database = new DatabaseSync(fenced);
    expect(database.prepare('SELECT times, refused FROM effects').all()).toEqual([{ times: 1, refused: 1 }]);
    database.close();
  },
  timeLimit(0) + 60_000,
);
