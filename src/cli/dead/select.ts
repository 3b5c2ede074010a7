import type { LetterFilter, Letters, StoredLetter } from '../../ports/letters.ts';
import type { Store } from '../../ports/store.ts';
import { CommandError } from '../command-error.ts';

/** Which letters: the same flags for every action. */
export const FILTERS = {
  store: { type: 'string' },
  consumer: { type: 'string' },
  json: { type: 'boolean' },
  id: { type: 'string', multiple: true },
  fingerprint: { type: 'string' },
  kind: { type: 'string' },
  key: { type: 'string' },
  message: { type: 'string' },
  'older-than': { type: 'string' },
  'newer-than': { type: 'string' },
} as const;

export interface FilterFlags {
  readonly id?: string[];
  readonly fingerprint?: string;
  readonly kind?: string;
  readonly key?: string;
  readonly message?: string;
  readonly 'older-than'?: string;
  readonly 'newer-than'?: string;
}

export function filterFrom(flags: FilterFlags): LetterFilter {
  return {
    ids: flags.id,
    fingerprint: flags.fingerprint,
    kind: flags.kind,
    key: flags.key,
    messageId: flags.message,
    olderThanMs: age('--older-than', flags['older-than']),
    newerThanMs: age('--newer-than', flags['newer-than']),
  };
}

/** A change of many letters is asked for by name, never by leaving the conditions out. */
export function assertChosen(action: string, filter: LetterFilter, all: boolean | undefined): void {
  const chosen = Object.values(filter).some(value => value !== undefined);
  if (chosen === (all === true)) {
    throw new CommandError(
      chosen
        ? `dead ${action}: --all goes without conditions`
        : `dead ${action} needs to know which letters: --id, --fingerprint, --kind, --key, --message, --older-than, --newer-than, or --all`,
    );
  }
}

const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

function age(flag: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const [, count, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  if (count !== undefined) return Number(count) * UNITS[unit!]!;
  throw new CommandError(`${flag} is ${JSON.stringify(text)}; give a number and s, m, h or d, such as 90s or 7d`);
}

export function lettersOf(store: Store): Letters {
  if (store.letters !== undefined) return store.letters;
  throw new CommandError(`${store.name} keeps no dead letters`);
}

/** The consumer that was named, or all that have ever started on the store. */
export async function consumersOf(store: Store, named: string | undefined): Promise<readonly string[]> {
  return named === undefined ? (await store.stats()).map(counts => counts.consumer) : [named];
}

const PAGE = 100;

/** All that fit, consumer by consumer, in the order in which they were set aside. */
export async function* lettersOn(
  store: Store,
  named: string | undefined,
  filter: LetterFilter,
): AsyncGenerator<StoredLetter> {
  const letters = lettersOf(store);
  for (const consumer of await consumersOf(store, named)) {
    for (let after: string | undefined; ; ) {
      const page = await letters.list(consumer, filter, { after, limit: PAGE });
      yield* page;
      if (page.length < PAGE) break;
      after = page.at(-1)!.id;
    }
  }
}
