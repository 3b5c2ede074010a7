import { dirname, resolve } from 'node:path';
import type { Consumer } from '../../create-consumer.ts';
import type { Summary } from '../../path.ts';
import type { Source } from '../../ports/source.ts';
import type { WaitingLine } from '../../sources/jsonl/index.ts';
import { parseCommand } from '../arguments.ts';
import { CommandError } from '../command-error.ts';
import type { Command } from '../command-line.ts';
import { EXIT } from '../exit-codes.ts';
import { loadConsumer } from '../load-consumer.ts';
import type { Output } from '../output.ts';
import { number, showProgress } from '../progress.ts';
import { stopOnSignals } from '../stop-signals.ts';
import { openStore, STORE_FORMS } from '../store-url.ts';

const HELP = `nevertwice run <module> [--input FILE|-]... [--store URL] [--json]

Runs the consumer that a module exports by default, until its source ends or a signal stops it.

  // wallet.ts
  import { createConsumer } from 'nevertwice';
  export default createConsumer({ name: 'wallet', handle: (message, { sql }) => … });

  nevertwice run wallet.ts --input payments.jsonl --store sqlite:wallet.db
  zcat payments.jsonl.gz | nevertwice run wallet.ts --input - --store postgres://app@db.example/shop
  nevertwice run wallet.ts --json | jq .processed

<module> is TypeScript (Node.js strips the types) or JavaScript, relative to the working directory.

  --input FILE   read messages from a file of one JSON object a line; - is standard input; may be repeated.
                 {"id":"m1","type":"PaymentReceived","key":"account-7","body":{"amount":500}}
                 Lines printed by kcat -J are understood as well.
  --store URL    ${STORE_FORMS}.
                 PostgreSQL uses the client pg that is installed beside the module. A password belongs into ~/.pgpass
                 or PGPASSWORD, as other users of the machine can read a command line.
  --json         the result as JSON; no progress.

A flag replaces the source or the store that the module gives. What the module itself prints goes to standard error.

What you can rely on: with sqlite: and postgres: every message's effect happens once, in the transaction that records
its id, also if the same message stands in the input twice, if another file brings it again, or if this process is
killed at any moment and started again. memory: forgets everything at the end.

It ends with one line on standard output:
  processed 90 · duplicates 10 · conflicts 0 · dead letters 0 · failed 0
processed were handled; duplicates were copies; conflicts have a known id and another body; dead letters were set aside
with their error, which is a decision and no failure; failed counts tries of a handler that ended in an error.

SIGINT or SIGTERM stops: running handlers get 10 seconds, and what had to be abandoned is named. The same signal again
ends at once. Nothing is lost either way: what was not acked comes again.

Exit codes: 0 the source ended; 1 a mistake in the command line, the module or the input; 2 the store cannot be reached
or its tables do not fit; 70 an unexpected error; 130 stopped by SIGINT, 143 by SIGTERM.`;

export const command: Command = {
  help: HELP,
  async run(args, output) {
    const { values, positionals } = parseCommand(
      'run',
      args,
      { input: { type: 'string', multiple: true }, store: { type: 'string' }, json: { type: 'boolean' } },
      1,
    );
    const [path] = positionals;
    if (path === undefined)
      throw new CommandError('run needs a module: nevertwice run <module>; see nevertwice run --help');
    const consumer = await loadConsumer(path);
    const source = await sourceFor(consumer, values.input);
    const opened = values.store === undefined ? undefined : await openStore(values.store, dirname(resolve(path)));
    if (opened === undefined && consumer.store === undefined) {
      throw new CommandError(`consumer ${consumer.name} has no store; give --store URL (${STORE_FORMS})`);
    }
    try {
      const json = values.json === true;
      return await runConsumer(consumer, source, opened && { store: opened.store }, json, output);
    } finally {
      await opened?.close();
    }
  },
};

async function sourceFor(consumer: Consumer, input: readonly string[] | undefined): Promise<Source> {
  if (input !== undefined) {
    const { jsonlSource } = await import('../../sources/jsonl/index.ts');
    return jsonlSource(input);
  }
  if (consumer.source !== undefined) return consumer.source;
  throw new CommandError(`consumer ${consumer.name} has no source; give --input FILE, or --input - for standard input`);
}

async function runConsumer(
  consumer: Consumer,
  source: Source,
  store: Pick<Parameters<Consumer['run']>[0] & object, 'store'> | undefined,
  json: boolean,
  output: Output,
): Promise<number> {
  const stopping = stopOnSignals(consumer, output);
  const counts = () => consumer.summary;
  const progress = json ? undefined : showProgress(output, { counts, lag: () => source.lag?.() });
  let summary: Summary;
  try {
    summary = await consumer.run({ source, signal: stopping.signal, ...store });
  } catch (error) {
    const done = inWords(consumer.summary);
    if (!isNothing(consumer.summary)) output.note(`before the error: ${done}`);
    throw error;
  } finally {
    progress?.stop();
    await stopping.finished();
  }
  const waiting = waitingLines(source);
  for (const line of waiting) output.note(line);
  if (source.capabilities.finite && stopping.exitCode === undefined && isNothing(summary) && waiting.length === 0) {
    output.note(`note: nothing new in ${source.name}; how far a file has been done is kept in the store`);
  }
  output.result(json ? JSON.stringify(summary) : inWords(summary));
  return stopping.exitCode ?? EXIT.done;
}

function isNothing(summary: Summary): boolean {
  return Object.values(summary).every(count => count === 0);
}

function inWords({ processed, duplicates, conflicts, deadLetters, failed }: Summary): string {
  return Object.entries({ processed, duplicates, conflicts, 'dead letters': deadLetters, failed })
    .map(([word, count]) => `${word} ${number(count)}`)
    .join(' · ');
}

/** Last lines that were not all there yet: nobody handled them, so somebody should know. */
function waitingLines(source: Source & { readonly waiting?: readonly WaitingLine[] }): readonly string[] {
  return (source.waiting ?? []).map(
    ({ input, line, bytes }) =>
      `note: ${input}:${line} ends without a line end after ${number(bytes)} bytes and is not complete; it waits for the next run`,
  );
}
