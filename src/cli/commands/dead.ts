import type { LetterFilter, StoredLetter } from '../../ports/letters.ts';
import type { Store } from '../../ports/store.ts';
import { parseCommand, wholeNumber } from '../arguments.ts';
import { CommandError } from '../command-error.ts';
import type { Command } from '../command-line.ts';
import { asJson, exported, type Group, grouped, listed, shown } from '../dead/format.ts';
import { retry, whoever } from '../dead/retry.ts';
import { assertChosen, FILTERS, filterFrom, lettersOf, lettersOn } from '../dead/select.ts';
import { EXIT } from '../exit-codes.ts';
import type { Output } from '../output.ts';
import { number } from '../progress.ts';
import { assertThere, withStore } from '../store-of.ts';
import { STORE_FORMS } from '../store-url.ts';

const HELP = `nevertwice dead [list | show | retry | discard | export] [<module>] [--store URL] [--consumer NAME] […] [--json]

Dead letters: messages that were set aside with their error, for a person to decide about.

  nevertwice dead --store postgres://app@db.example/shop --groups
  nevertwice dead show --store sqlite:wallet.db --id 17
  nevertwice dead retry wallet.ts --fingerprint 33e59eb6dfd40c06 --reason 'account was opened' --rate 20
  nevertwice dead retry wallet.ts --id 17 --body mended.json --header currency=EUR --reason 'currency was missing'
  nevertwice dead discard --store sqlite:wallet.db --id 18 --reason 'a test of ours'

  list           the letters, oldest first (the default); --groups counts those that failed alike, --closed shows those that
                 are closed, --limit how many (50)
  show           everything about one letter, given by --id; its body only with --payload
  retry          sends letters through the handler of the module once more, in the order in which they were set aside
  discard        closes letters without handling them; needs --reason
  export         one line of JSON a letter, with its body, in the form that nevertwice run --input reads

Which letters: every condition that is given has to hold. retry and discard want at least one, or --all.
  --id N         may be repeated           --fingerprint  of the failure: the same for failures of one kind
  --kind         rejected, attempts, …     --message      the message's id
  --key          the message's key         --older-than, --newer-than  since it was last set aside: 90s, 15m, 2h, 7d

retry: --body FILE and --header NAME=VALUE change one message for good; what came is kept beside it. --rate N letters a
second (50), --max N letters, --dry-run only says which. --by and --reason are kept with each letter (--by: who is logged in).

What you can rely on: with sqlite: and postgres: a letter is held and closed in the transaction of its effect, so that neither a
second person at the same time nor a crash does it twice or loses it. A message that was done in the meantime is a duplicate and
not done again. One that fails stays, with its newest error. With deadLetter: 'key' what stands behind a letter waits for it.

  <module>       take the consumer that this module exports, and its store
  --store URL    ${STORE_FORMS}

Exit codes: 0 done, also where letters failed again; 1 a mistake in the command line or the module; 2 the store cannot be
reached, or has no tables that fit; 130 and 143 stopped by SIGINT and SIGTERM.`;

const WHO = {
  by: { type: 'string' },
  reason: { type: 'string' },
  all: { type: 'boolean' },
  'dry-run': { type: 'boolean' },
} as const;

const ACTIONS: Readonly<Record<string, (args: readonly string[], output: Output) => Promise<number>>> = {
  list,
  show,
  retry: retryLetters,
  discard,
  export: exportLetters,
};

export const command: Command = {
  help: HELP,
  async run(args, output) {
    const [first, ...rest] = args;
    const action = first !== undefined && Object.hasOwn(ACTIONS, first) ? ACTIONS[first] : undefined;
    return action === undefined ? list(args, output) : action(rest, output);
  },
};

async function list(args: readonly string[], output: Output): Promise<number> {
  const flags = {
    ...FILTERS,
    closed: { type: 'boolean' },
    groups: { type: 'boolean' },
    limit: { type: 'string' },
  } as const;
  const { values, positionals } = parseCommand('dead', args, flags, 1);
  const filter = { ...filterFrom(values), closed: values.closed === true };
  const limit = wholeNumber('--limit', values.limit ?? '50', 1, 10_000);
  assertThere(values.store);
  return withStore('dead', positionals[0], values.store, async (store, owner) => {
    const named = values.consumer ?? owner;
    const json = values.json === true;
    if (values.groups === true) {
      const groups = await groupsOf(store, named, filter);
      output.result(json ? JSON.stringify(groups) : groups.length === 0 ? none(store) : grouped(groups));
      return EXIT.done;
    }
    const letters: StoredLetter[] = [];
    let more = false;
    for await (const letter of lettersOn(store, named, filter)) {
      more = letters.length === limit;
      if (more) break;
      letters.push(letter);
    }
    if (json) output.result(JSON.stringify(letters.map(letter => asJson(letter, false))));
    else output.result(letters.length === 0 ? none(store) : listed(letters));
    if (more) output.note(`there are more than ${number(limit)}; --limit shows more, --groups counts them by failure`);
    return EXIT.done;
  });
}

const none = (store: Store) => `${store.name}: no such dead letters`;

async function groupsOf(store: Store, named: string | undefined, filter: LetterFilter): Promise<readonly Group[]> {
  const groups = new Map<string, Group>();
  for await (const { consumer, kind, failure, reason, firstAt, lastAt } of lettersOn(store, named, filter)) {
    const name = JSON.stringify([consumer, kind, failure]);
    const group = groups.get(name);
    if (group === undefined) {
      groups.set(name, { consumer, fingerprint: failure, kind, reason, letters: 1, first: firstAt, last: lastAt });
      continue;
    }
    group.letters++;
    if (firstAt < group.first) group.first = firstAt;
    if (lastAt > group.last) Object.assign(group, { last: lastAt, reason });
  }
  return [...groups.values()].sort((a, b) => b.letters - a.letters);
}

async function show(args: readonly string[], output: Output): Promise<number> {
  const flags = { ...FILTERS, payload: { type: 'boolean' } } as const;
  const { values, positionals } = parseCommand('dead', args, flags, 1);
  const { id: ids = [], payload = false } = values;
  if (ids.length !== 1) throw new CommandError('dead show needs one letter: --id N, as nevertwice dead list has it');
  assertThere(values.store);
  return withStore('dead', positionals[0], values.store, async (store, owner) => {
    for (const closed of [false, true]) {
      for await (const letter of lettersOn(store, values.consumer ?? owner, { ids, closed })) {
        output.result(values.json === true ? JSON.stringify(asJson(letter, payload)) : shown(letter, payload));
        return EXIT.done;
      }
    }
    throw new CommandError(`there is no letter ${ids[0]} here; see nevertwice dead list`);
  });
}

async function retryLetters(args: readonly string[], output: Output): Promise<number> {
  const flags = {
    ...FILTERS,
    ...WHO,
    body: { type: 'string' },
    header: { type: 'string', multiple: true },
    rate: { type: 'string' },
    max: { type: 'string' },
  } as const;
  const { values, positionals } = parseCommand('dead', args, flags, 1);
  const filter = filterFrom(values);
  assertChosen('retry', filter, values.all);
  if (values.consumer !== undefined)
    throw new CommandError('dead retry takes the consumer from its module; leave --consumer out');
  assertThere(values.store);
  return retry(positionals[0], filter, values, output);
}

async function discard(args: readonly string[], output: Output): Promise<number> {
  const { values, positionals } = parseCommand('dead', args, { ...FILTERS, ...WHO }, 1);
  const { reason } = values;
  const filter = filterFrom(values);
  assertChosen('discard', filter, values.all);
  if (reason === undefined)
    throw new CommandError('dead discard needs --reason: what is discarded is not handled any more');
  assertThere(values.store);
  return withStore('dead', positionals[0], values.store, async (store, owner) => {
    const done = { discarded: 0, busy: 0 };
    const dryRun = values['dry-run'] === true;
    for await (const { consumer, id } of lettersOn(store, values.consumer ?? owner, filter)) {
      const closed =
        dryRun || (await lettersOf(store).close(consumer, id, 'discarded', { by: whoever(values), reason }));
      done[closed ? 'discarded' : 'busy']++;
    }
    if (values.json === true) output.result(JSON.stringify({ ...done, dryRun }));
    else
      output.result(
        `${dryRun ? 'would discard' : 'discarded'} ${number(done.discarded)} · busy or gone ${number(done.busy)}`,
      );
    return EXIT.done;
  });
}

async function exportLetters(args: readonly string[], output: Output): Promise<number> {
  const { values, positionals } = parseCommand('dead', args, { ...FILTERS, closed: { type: 'boolean' } }, 1);
  const filter = { ...filterFrom(values), closed: values.closed === true };
  assertThere(values.store);
  return withStore('dead', positionals[0], values.store, async (store, owner) => {
    for await (const letter of lettersOn(store, values.consumer ?? owner, filter)) output.result(exported(letter));
    return EXIT.done;
  });
}
