import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { encodeKey } from '../../../src/identity/encoding.ts';
import { type LeaseTarget, openTarget } from '../../stores/lease-targets.ts';
import { KILLS, timeLimit } from '../../support/counts.ts';
import { SEED, seeded } from '../../support/random.ts';
import { endsWithin, until } from '../../support/until.ts';
import { type Ending, type Job, REGISTRATION } from './job.ts';
import { PLACES, type Place } from './places.ts';

const CHILD = fileURLToPath(new URL('child.ts', import.meta.url));
const ENDS_WITHIN_MS = 30_000;
/** The last process has what is left of the whole input. */
const LAST_ENDS_WITHIN_MS = ENDS_WITHIN_MS + KILLS * 300;
const LEASE_MS = 150;

/** Everything that a lease store brings. */
export interface LeaseKills<K extends string> {
  readonly name: string;
  /** Kinds of processes, which take turns. */
  readonly kinds: readonly K[];
  /** An empty store; what it returns says how a process of that kind gets to it. */
  create(folder: string): (kind: K) => LeaseTarget;
}

interface Told {
  readonly place: Place;
  readonly ids: readonly string[];
}

/** Processes that are killed at each place of the path, at random moments, and one that sleeps past its lease. */
export function leaseKills<K extends string>({ name, kinds, create }: LeaseKills<K>): void {
  let folder: string;
  let targetOf: (kind: K) => LeaseTarget;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), `nevertwice-kill-${name}-`));
    targetOf = create(folder);
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  /** How the nth process gets to the store. */
  const target = (nth: number) => targetOf(kinds[nth % kinds.length]!);

  function start(job: Job): ChildProcess {
    // One that slept warns of what it missed, on purpose.
    return spawn(process.execPath, ['--disable-warning=NevertwiceWarning', CHILD, JSON.stringify(job)], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, NODE_COMPILE_CACHE: join(folder, 'cache') },
    });
  }

  function writeInput(messages: number): { readonly input: string; readonly ids: readonly string[] } {
    const ids = Array.from({ length: messages }, (_, i) => `payment-${i}`);
    const input = join(folder, 'payments.jsonl');
    writeFileSync(input, ids.map(id => `${JSON.stringify({ id, body: { amount: 500 } })}\n`).join(''));
    return { input, ids };
  }

  /** One process more, which is to come to the end of the input. */
  async function finish(job: Job): Promise<void> {
    const { code, said } = await ending(start(job), LAST_ENDS_WITHIN_MS);
    expect(code).toBe(0);
    expect((JSON.parse(said) as Ending).stale).toBe(0);
  }

  describe(name, () => {
    test(
      `C79 C80: ${KILLS} kills, seed ${SEED}: nothing is lost, and only what was done and not yet recorded is done again`,
      async () => {
        const random = seeded(SEED);
        const { input, ids } = writeInput(12 * KILLS + 12);
        const books = new Books(join(folder, 'effects'));
        const deaths = new Set<Place>();
        for (let i = 0; i < KILLS; i++) {
          const place = PLACES[i % PLACES.length]!;
          // One further with each round, so that every place has every kind of process.
          const job = jobOf(target(i + Math.floor(i / PLACES.length)), input, books);
          const fault = { signal: 'SIGKILL', place, nth: 1 + random.below(2) } as const;
          const { signal, said } = await ending(start({ ...job, fault }));
          expect(signal, `a death at ${place}`).toBe('SIGKILL');
          const told = JSON.parse(said) as Told;
          const left = await books.afterDeath(job.target);
          if (place === 'effect after') expect([...left], place).toEqual(expect.arrayContaining([...told.ids]));
          // The message before it may still be on its way into the store; before and after the handlers nothing is.
          else if (place !== 'effect before') expect([...left], place).toEqual([]);
          deaths.add(told.place);
        }
        await finish(jobOf(target(KILLS), input, books));
        if (KILLS >= PLACES.length) expect(deaths.size).toBe(PLACES.length);
        expect(books.faults(ids)).toEqual([]);
      },
      timeLimit(3_000),
    );

    test(
      `C80: ${KILLS} kills at any moment, seed ${SEED}: nothing is lost, and only what was done and not yet recorded is done again`,
      async () => {
        const random = seeded(SEED);
        const { input, ids } = writeInput(150 * KILLS);
        const books = new Books(join(folder, 'effects'));
        for (let i = 0; i < KILLS; i++) {
          const enough = books.bytes + random.below(2_000);
          const job = jobOf(target(i), input, books);
          const child = start(job);
          const ended = ending(child);
          await until('effects of the next process', () => books.bytes > enough, ENDS_WITHIN_MS);
          child.kill('SIGKILL');
          expect((await ended).signal).toBe('SIGKILL');
          // One handler at a time, in batches of 4; what those before it have done is recorded while it is at work.
          expect((await books.afterDeath(job.target)).size).toBeLessThanOrEqual(4);
        }
        await finish(jobOf(target(KILLS), input, books));
        expect(books.faults(ids)).toEqual([]);
      },
      timeLimit(3_000),
    );

    test.skipIf(process.platform === 'win32').for(kinds)(
      'C85: an owner that slept past its lease writes with a token that is refused, and completes nothing, with %s',
      { timeout: timeLimit(0) + 60_000 },
      async kind => {
        const { input } = writeInput(1);
        const fenced = join(folder, 'effects.db');
        const job = { input, effects: { fenced }, leaseMs: LEASE_MS };
        const fault = { signal: 'SIGSTOP', place: 'effect before', nth: 1 } as const;
        const asleep = start({ ...job, target: targetOf(kind), fault });
        try {
          await endsWithin(ENDS_WITHIN_MS, 'the first owner sleeps', once(asleep.stdout!, 'data'));
          const other = await ending(start({ ...job, target: target(kinds.indexOf(kind) + 1) }));
          expect(other).toMatchObject({ code: 0, ended: { processed: 1, duplicates: 0, stale: 0 } });
          const awake = ending(asleep);
          asleep.kill('SIGCONT');
          expect(await awake).toMatchObject({ code: 0, ended: { processed: 0, duplicates: 1 } });
          expect((await awake).ended!.stale).toBeGreaterThan(0);
        } finally {
          asleep.kill('SIGKILL');
        }
        const database = new DatabaseSync(fenced);
        expect(database.prepare('SELECT times, refused FROM effects').all()).toEqual([{ times: 1, refused: 1 }]);
        database.close();
      },
    );
  });
}

function jobOf(target: LeaseTarget, input: string, books: Books): Job {
  return { target, input, effects: { lines: books.file }, leaseMs: LEASE_MS };
}

interface Ended {
  readonly code: number | null;
  readonly signal: string | null;
  readonly said: string;
}

async function ending(child: ChildProcess, withinMs = ENDS_WITHIN_MS): Promise<Ended & { readonly ended?: Ending }> {
  const said = text(child.stdout!);
  const [code, signal] = (await endsWithin(withinMs, 'a process ends', once(child, 'close'))) as [
    number | null,
    string | null,
  ];
  const all = { code, signal, said: await said };
  return code === 0 ? { ...all, ended: JSON.parse(all.said) as Ending } : all;
}

/** Effects as lines, and what each death left behind: done, and not recorded as done. Just that is to be done again. */
class Books {
  readonly file: string;
  readonly #again = new Map<string, number>();
  #read = 0;

  constructor(file: string) {
    this.file = file;
    writeFileSync(file, '');
  }

  get bytes(): number {
    return statSync(this.file).size;
  }

  get #effects(): readonly (readonly [id: string, token: string])[] {
    const lines = readFileSync(this.file, 'utf8').split('\n').slice(0, -1);
    return lines.map(line => line.split(' ') as [string, string]);
  }

  /**
   * Called when a process has died: its effects that the store does not hold as done. An id of which the store knows nothing
   * is none of them, since nobody may work without a claim.
   */
  async afterDeath(target: LeaseTarget): Promise<ReadonlySet<string>> {
    const effects = this.#effects;
    const ids = [...new Set(effects.slice(this.#read).map(([id]) => id))];
    this.#read = effects.length;
    const { store, close } = await openTarget(target);
    try {
      const inbox = await store.open(REGISTRATION);
      const states = await inbox.inspect(ids.map(encodeKey));
      const left = new Set(ids.filter((_, i) => states[i]!.state === 'claimed'));
      for (const id of left) this.#again.set(id, (this.#again.get(id) ?? 0) + 1);
      return left;
    } finally {
      await close();
    }
  }

  /** What is wrong at the end, one line each. */
  faults(ids: readonly string[]): readonly string[] {
    const tokens = new Map<string, string[]>(ids.map(id => [id, []]));
    for (const [id, token] of this.#effects) tokens.get(id)!.push(token);
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
