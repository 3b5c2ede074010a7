import { createHash } from 'node:crypto';
import type { Verdict } from './core/verdict.ts';
import type { Batch, Entry } from './entry.ts';
import { NevertwiceError } from './errors.ts';
import { LetterGone } from './letter-in-hand.ts';
import { opened } from './letter-seal.ts';
import { whole } from './options.ts';
import type { Mode, Path, Scope } from './path.ts';
import type { LetterFilter, Letters, StoredLetter } from './ports/letters.ts';
import type { Claim, LeaseProof, Store } from './ports/store.ts';
import { processBatch } from './process-batch.ts';
import { entryOf, letterEdit, type MessageEdit } from './redriven.ts';

/**
 * What became of one letter.
 *
 * - `processed`: its effect has happened now, and it is closed.
 * - `duplicate`: its message had been done in the meantime; it is closed.
 * - `failed`: it is still open, with its newest error.
 * - `busy`: a live owner works on its message, or somebody else sends it through again; it is still open.
 * - `waiting`: an earlier letter of its key is still open (`deadLetter: 'key'`).
 * - `gone`: somebody else has closed it.
 * - `stopped`: the signal came first; it is still open.
 * - `would-retry`: with `dryRun`.
 */
export type RedriveOutcome =
  | 'processed'
  | 'duplicate'
  | 'failed'
  | 'busy'
  | 'waiting'
  | 'gone'
  | 'stopped'
  | 'would-retry';

export interface RedrivenLetter {
  readonly letter: StoredLetter;
  readonly outcome: RedriveOutcome;
  /** Why it failed, in one line. */
  readonly reason: string | undefined;
}

export interface RedriveOptions {
  /** Which letters; without conditions all open ones of the consumer. */
  readonly filter?: LetterFilter;
  /** Changes the message first, for good: the filter must choose one letter. What came is kept beside it. */
  readonly edit?: MessageEdit;
  /** Who does this, and why; kept with each letter. */
  readonly by?: string;
  readonly reason?: string;
  /** Letters a second at most. Default 50, 1 to 10,000. */
  readonly perSecond?: number;
  /** Letters at most. Default: all. */
  readonly most?: number;
  /** Changes nothing and runs nothing; reports each letter that would be tried. */
  readonly dryRun?: boolean;
  /** No further letter is begun once this aborts. */
  readonly signal?: AbortSignal;
  /** Told of each letter when it is decided. */
  readonly onLetter?: (redriven: RedrivenLetter) => void;
}

/** How many letters came to which outcome. */
export type RedriveSummary = Readonly<Record<RedriveOutcome, number>>;

const PAGE = 100;
/** A live owner is waited for this long; then the letter is left for the next time. */
const BUSY_WAIT_MS = 1_000;

/**
 * Sends dead letters through the path once more, one by one, in the order in which they were set aside. Always by id, whatever
 * tells copies otherwise. With a transactional store the letter is held and closed in the very transaction of its effect.
 */
export async function redrive(consumer: Path, letters: Letters, options: RedriveOptions): Promise<RedriveSummary> {
  const { filter = {}, edit, dryRun = false, signal = new AbortController().signal } = options;
  const perSecond = whole('perSecond', options.perSecond ?? 50, 1, 10_000);
  const most = options.most === undefined ? Number.POSITIVE_INFINITY : whole('most', options.most, 1, 1_000_000_000);
  if (edit !== undefined) await assertOne(consumer, letters, filter);
  const path: Path = {
    ...consumer,
    dedupe: 'id',
    onUnknownType: 'dead-letter',
    // Its own letter is open, and those of its key before it are looked for here.
    policy: { ...consumer.policy, deadLetter: 'message' },
  };
  const inOrder = consumer.policy.deadLetter === 'key';
  const summary = { ...NOTHING };
  const held = new Set<string>();
  let tried = 0;
  for await (const letter of matching(letters, path.consumer, filter)) {
    if (tried++ >= most || signal.aborted) break;
    const sinceMs = path.clock.monotonicMs();
    const key = inOrder ? letter.key : undefined;
    const waits = key !== undefined && (held.has(key) || (await hasEarlier(letters, letter, key)));
    const done = waits
      ? outcome(letter, 'waiting')
      : dryRun
        ? outcome(letter, 'would-retry')
        : await again(path, letters, letter, { ...options, signal });
    if (key !== undefined && !dryRun && !CLOSED.has(done.outcome)) held.add(key);
    summary[done.outcome]++;
    options.onLetter?.(done);
    const leftMs = 1_000 / perSecond - (path.clock.monotonicMs() - sinceMs);
    if (!dryRun && leftMs > 0) await path.clock.sleep(leftMs, signal);
  }
  return summary;
}

/** @throws NT_CONFIG where there is nothing to send through again */
export function lettersOf({ mode }: { readonly mode: Mode }, store: Store): Letters {
  if (mode === 'at-most-once') {
    throw new NevertwiceError(
      'NT_CONFIG',
      "with mode: 'at-most-once' a message counts as done before its handler runs, so its letter cannot be sent through again; send the message under another id",
    );
  }
  if (store.letters !== undefined) return store.letters;
  throw new NevertwiceError('NT_CONFIG', `${store.name} keeps no dead letters to send through again`);
}

const NOTHING: Record<RedriveOutcome, number> = {
  processed: 0,
  duplicate: 0,
  failed: 0,
  busy: 0,
  waiting: 0,
  gone: 0,
  stopped: 0,
  'would-retry': 0,
};
const CLOSED: ReadonlySet<RedriveOutcome> = new Set(['processed', 'duplicate', 'gone']);

function outcome(letter: StoredLetter, what: RedriveOutcome, reason?: string): RedrivenLetter {
  return { letter, outcome: what, reason };
}

async function* matching(letters: Letters, consumer: string, filter: LetterFilter): AsyncGenerator<StoredLetter> {
  for (let after: string | undefined; ; ) {
    const page = await letters.list(consumer, { ...filter, closed: false }, { after, limit: PAGE });
    yield* page;
    if (page.length < PAGE) return;
    after = page.at(-1)!.id;
  }
}

async function assertOne({ consumer }: Path, letters: Letters, filter: LetterFilter): Promise<void> {
  const found = await letters.list(consumer, { ...filter, closed: false }, { limit: 2 });
  if (found.length === 1) return;
  const how = found.length === 0 ? 'no open letter' : 'more than one';
  throw new NevertwiceError(
    'NT_CONFIG',
    `an edit is for one dead letter, and the filter chooses ${how}; choose one by its id`,
  );
}

async function hasEarlier(letters: Letters, { consumer, id }: StoredLetter, key: string): Promise<boolean> {
  const [first] = await letters.list(consumer, { key }, { limit: 1 });
  return first !== undefined && first.id !== id;
}

async function again(
  path: Path,
  letters: Letters,
  letter: StoredLetter,
  { edit, by, reason, signal }: RedriveOptions & { readonly signal: AbortSignal },
): Promise<RedrivenLetter> {
  const plain = opened(path.policy.letterSeal, letter);
  if (plain === undefined)
    return outcome(letter, 'failed', 'its body is sealed, and letterSeal of this consumer has no open');
  const changes = edit === undefined ? undefined : letterEdit(path, plain, edit);
  // Committed before anything is tried, so that who tries is known whatever becomes of the process.
  const begun = await letters.begin(path.consumer, letter.id, { by, reason }, changes);
  if (begun === undefined) return outcome(letter, await whose(letters, letter));
  return underLetterLease(path, letters, begun, async () => {
    const entry = await entryOf(path, opened(path.policy.letterSeal, begun)!);
    try {
      await processBatch(path, scopeOf(path, begun, signal), {
        deliveries: [entry.delivery],
        entries: [entry],
      } satisfies Batch);
    } catch (error) {
      if (!(error instanceof LetterGone)) throw error;
      // Its own commit whose reply was lost, or somebody else's.
      const now = await whose(letters, begun);
      return outcome(begun, now === 'gone' && entry.unknownCommits > 0 ? 'processed' : now);
    }
    return closed(path, letters, begun, entry);
  });
}

/** What its verdict says of the letter. What could not be closed in the transaction of the effect is closed here. */
async function closed(path: Path, letters: Letters, letter: StoredLetter, entry: Entry): Promise<RedrivenLetter> {
  const verdict: Verdict | undefined = entry.verdict;
  switch (verdict?.verdict) {
    case 'processed':
      // A crash before this line leaves it open: the next retry finds a duplicate.
      if (path.store.promise === 'at-least-once') await letters.close(path.consumer, letter.id, 'processed');
      return outcome(letter, 'processed');
    case 'conflict':
      if (verdict.deadLettered) return outcome(letter, 'failed', 'the same id was processed with another payload');
      await letters.close(path.consumer, letter.id, 'duplicate');
      return outcome(letter, 'duplicate');
    case 'duplicate':
      await letters.close(path.consumer, letter.id, 'duplicate');
      return outcome(letter, 'duplicate');
    case 'dead-lettered':
      return outcome(letter, 'failed', verdict.reason);
    case 'busy':
      return outcome(letter, 'busy');
    default:
      return outcome(letter, 'stopped');
  }
}

/** Of a letter that could not be held: closed by somebody else, or in his hands. */
async function whose(letters: Letters, { consumer, id }: StoredLetter): Promise<'busy' | 'gone'> {
  return (await letters.list(consumer, { ids: [id] }, { limit: 1 })).length > 0 ? 'busy' : 'gone';
}

function scopeOf(path: Path, letter: StoredLetter, stopping: AbortSignal): Scope {
  return {
    lane: letter.lane,
    position: undefined,
    stopping,
    abort: new AbortController().signal,
    attempts: path.policy.attempts,
    busyWaitMs: Math.min(path.policy.busyWaitMs, BUSY_WAIT_MS),
    canRetryLater: () => false,
  };
}

/**
 * Where no transaction can hold the letter it is claimed like a message, under a name of its own: two people may give its message
 * two different ids, so that the ids alone would not keep them apart.
 */
async function underLetterLease(
  path: Path,
  letters: Letters,
  letter: StoredLetter,
  work: () => Promise<RedrivenLetter>,
): Promise<RedrivenLetter> {
  if (path.store.promise === 'exactly-once') return work();
  const { inbox } = path.store;
  const { leaseMs } = path.policy;
  const claim = letterClaim(letter);
  const [grant] = await inbox.claim([claim], leaseMs);
  if (grant?.answer.answer !== 'fresh') return outcome(letter, 'busy');
  const proof: LeaseProof = { claim, nonce: grant.nonce! };
  // What cannot be renewed runs out, and then the message's own claim still keeps two people apart that did not rename it.
  const renewing = setInterval(() => void inbox.renew([proof], leaseMs).catch(() => undefined), leaseMs / 3);
  try {
    // It may have been closed between the look and the claim.
    return (await whose(letters, letter)) === 'gone' ? outcome(letter, 'gone') : await work();
  } finally {
    clearInterval(renewing);
    await inbox.release([proof]);
  }
}

/** Apart from every id: those begin with 1, 2 or 3. */
function letterClaim({ dedupe }: StoredLetter): Claim {
  const key = Buffer.concat([Buffer.of(4), createHash('sha256').update(dedupe).digest()]);
  return { key, hex: key.toString('hex'), fingerprint: undefined };
}
