import { createRelay, type Relay, type RelaySummary } from '../../outbox/create-relay.ts';
import { httpDestination } from '../../outbox/http-destination.ts';
import { parseCommand } from '../arguments.ts';
import { CommandError } from '../command-error.ts';
import type { Command } from '../command-line.ts';
import { EXIT } from '../exit-codes.ts';
import { loadRelay } from '../load-consumer.ts';
import type { Output } from '../output.ts';
import { number } from '../progress.ts';
import { stopOnSignals } from '../stop-signals.ts';
import { assertThere } from '../store-of.ts';
import { openStore, STORE_FORMS } from '../store-url.ts';

const HELP = `nevertwice relay <module> [--json]
nevertwice relay --store URL --to URL [--json]

Publishes what handlers and createOutbox have added to the outbox of a store, until a signal stops it. Any number of relays
may run on one store, also on other machines.

  // relay.ts
  import { createRelay } from 'nevertwice';
  export default createRelay({ store, destination: kafkaDestination({ client }) });

  nevertwice relay relay.ts
  nevertwice relay --store postgres://app@db.example/shop --to https://api.example/events

<module> exports a relay by default. Without one each message is posted to the endpoint that --to names, with its id as
idempotency-key.

  --store URL    ${STORE_FORMS}
  --to URL       an HTTP endpoint; 2xx is the acknowledgement
  --json         the result as JSON

What you can rely on: at least once, with the same id each time, and in the order of the commits for each key, as far as
first publications go. A row is deleted once the destination has acknowledged it, and never before.

It ends with one line on standard output:
  published 90 · refused 0 · parked 0 · outages 0
refused counts tries that the destination refused, parked the messages that were set aside after too many of them
(nevertwice outbox lists them), outages how often the destination or the store was found down.

SIGINT or SIGTERM stops: what is under way gets 10 seconds. The same signal again ends at once. Nothing is lost either way:
what was not acknowledged is published again.

Exit codes: 1 a mistake in the command line or the module; 2 the tables of the store do not fit; 70 an unexpected error; 130
stopped by SIGINT, 143 by SIGTERM.`;

export const command: Command = {
  help: HELP,
  async run(args, output) {
    const { values, positionals } = parseCommand(
      'relay',
      args,
      { store: { type: 'string' }, to: { type: 'string' }, json: { type: 'boolean' } },
      1,
    );
    const [path] = positionals;
    const json = values.json === true;
    if (path !== undefined) {
      if (values.store !== undefined || values.to !== undefined)
        throw new CommandError('relay takes a module, or --store and --to, and not both');
      const relay = await loadRelay(path);
      try {
        return await runRelay(relay, json, output);
      } finally {
        await relay.store.close();
      }
    }
    return withoutModule(values.store, values.to, json, output);
  },
};

async function withoutModule(
  url: string | undefined,
  to: string | undefined,
  json: boolean,
  output: Output,
): Promise<number> {
  if (url === undefined || to === undefined) {
    throw new CommandError('relay needs a module, or --store URL and --to URL; see nevertwice relay --help');
  }
  if (!/^https?:\/\//i.test(to) || !URL.canParse(to)) throw new CommandError('--to is no http:// or https:// URL');
  assertThere(url);
  const { store, close } = await openStore(url);
  try {
    if (store.promise !== 'exactly-once') throw new CommandError(`${store.name} is a lease store and has no outbox`);
    return await runRelay(createRelay({ store, destination: httpDestination({ url: to }) }), json, output);
  } finally {
    await close();
  }
}

async function runRelay(relay: Relay, json: boolean, output: Output): Promise<number> {
  const stop = async (options?: { withinMs?: number }) => {
    await relay.stop(options);
    return { abandoned: [] };
  };
  const stopping = stopOnSignals({ stop }, output, 'what is under way has');
  try {
    const summary = await relay.run();
    output.result(json ? JSON.stringify(summary) : inWords(summary));
  } finally {
    await stopping.finished();
  }
  return stopping.exitCode ?? EXIT.done;
}

function inWords(summary: RelaySummary): string {
  const { published, refused, parked, outages } = summary;
  return Object.entries({ published, refused, parked, outages })
    .map(([word, count]) => `${word} ${number(count)}`)
    .join(' · ');
}
