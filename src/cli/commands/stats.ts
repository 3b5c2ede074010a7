import type { Counts } from '../../ports/store.ts';
import { parseCommand } from '../arguments.ts';
import type { Command } from '../command-line.ts';
import { EXIT } from '../exit-codes.ts';
import { number } from '../progress.ts';
import { assertThere, withStore } from '../store-of.ts';
import { STORE_FORMS } from '../store-url.ts';
import { table } from '../table.ts';

const HELP = `nevertwice stats [<module>] [--store URL] [--json]

What every consumer has done so far, as its store knows it.

  nevertwice stats --store sqlite:wallet.db
  nevertwice stats --store postgres://app@db.example/shop --json

  <module>       take the store of the consumer that this module exports: with its schema and table names
  --store URL    ${STORE_FORMS}
  --json         an array of { consumer, processed, deadLetters, oldest, newest }; times in ISO 8601, or null

processed counts the ids in the inbox, dead letters those that are open; oldest and newest are the times at which the
first and the last of the messages still in the inbox were processed, by the clock of the store. It counts all rows: a
question for a person, not for a scraper every few seconds.

Exit codes: 0 answered; 1 a mistake in the command line or the module; 2 the store cannot be reached, or has no tables
that fit.`;

export const command: Command = {
  help: HELP,
  async run(args, output) {
    const { values, positionals } = parseCommand(
      'stats',
      args,
      { store: { type: 'string' }, json: { type: 'boolean' } },
      1,
    );
    assertThere(values.store);
    return withStore('stats', positionals[0], values.store, async store => {
      const counts = await store.stats();
      if (values.json === true) output.result(JSON.stringify(counts.map(asJson)));
      else output.result(counts.length === 0 ? `${store.name}: no consumer has started here yet` : inWords(counts));
      return EXIT.done;
    });
  },
};

function asJson({ consumer, processed, deadLetters, oldest, newest }: Counts): object {
  return { consumer, processed, deadLetters, oldest: oldest ?? null, newest: newest ?? null };
}

function inWords(counts: readonly Counts[]): string {
  const time = (date: Date | undefined) => date?.toISOString() ?? '-';
  return table(
    ['consumer', 'processed', 'dead letters', 'oldest', 'newest'],
    counts.map(c => [c.consumer, number(c.processed), number(c.deadLetters), time(c.oldest), time(c.newest)]),
    new Set([1, 2]),
  );
}
