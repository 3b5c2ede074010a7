import type { LetterEdit, LetterEvent, LetterFilter, LetterPage, StoredLetter } from '../ports/letters.ts';

const MOST_EVENTS = 50;

/** A page of letters that are all at hand, oldest first. Such stores keep no closed ones. */
export function pageOf(
  letters: readonly StoredLetter[],
  filter: LetterFilter,
  { after, limit }: LetterPage,
  nowMs: number,
): readonly StoredLetter[] {
  if (filter.closed === true) return [];
  const found = letters.filter(letter => matches(letter, filter, nowMs));
  // Ids rise with age, and the one before may be closed by now.
  const behind = after === undefined ? found : found.filter(({ id }) => compareIds(id, after) > 0);
  return behind.slice(0, limit);
}

function matches(letter: StoredLetter, filter: LetterFilter, nowMs: number): boolean {
  const { ids, fingerprint, kind, key, messageId, olderThanMs, newerThanMs } = filter;
  const ageMs = nowMs - letter.lastAt.getTime();
  return (
    (ids === undefined || ids.includes(letter.id)) &&
    (fingerprint === undefined || letter.failure === fingerprint) &&
    (kind === undefined || letter.kind === kind) &&
    (key === undefined || letter.key === key) &&
    (messageId === undefined || letter.messageId === messageId) &&
    (olderThanMs === undefined || ageMs >= olderThanMs) &&
    (newerThanMs === undefined || ageMs <= newerThanMs)
  );
}

/** By the number in front; numbers beyond 2^53 too. */
export function compareIds(a: string, b: string): number {
  const [x, y] = [BigInt(/^\d+/.exec(a)?.[0] ?? 0), BigInt(/^\d+/.exec(b)?.[0] ?? 0)];
  if (x !== y) return x < y ? -1 : 1;
  return a < b ? -1 : a > b ? 1 : 0;
}

/** A letter with what somebody begins with it. */
export function begun(
  letter: StoredLetter,
  event: Omit<LetterEvent, 'action'>,
  edit: LetterEdit | undefined,
): StoredLetter {
  const action = edit === undefined ? ('retry' as const) : ('revise' as const);
  const history = [...letter.history.slice(1 - MOST_EVENTS), { action, ...event }];
  if (edit === undefined) return { ...letter, history };
  return {
    ...letter,
    history,
    revision: letter.revision + 1,
    original: letter.original ?? { headers: letter.headers, payload: letter.payload },
    headers: edit.headers ?? letter.headers,
    payload: edit.payload ?? letter.payload,
  };
}
