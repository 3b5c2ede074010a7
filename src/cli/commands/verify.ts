import { existsSync, readFileSync } from 'node:fs';
import {
  type Bounds,
  type BrokerName,
  FORMATS,
  type Format,
  render,
  VerifyError,
  type VerifyMessage,
  type VerifyOptions,
  type VerifyProgress,
  verify,
} from '../../verify/index.ts';
import { shellWord } from '../../verify/report/text.ts';
import { parseCommand, wholeNumber } from '../arguments.ts';
import { CommandError } from '../command-error.ts';
import type { Command } from '../command-line.ts';
import { EXIT } from '../exit-codes.ts';
import type { Output } from '../output.ts';
import { number } from '../progress.ts';

const HELP = `nevertwice verify <module>[#export] [options]

Finds out whether a message handler, in whatever style it is written, takes effect once however often and however badly its
message is delivered. It runs the handler in processes of their own on a real PostgreSQL, tries every crash, cut
connection, lost reply, late request and overlapping copy that the broker can cause, cheapest first, and compares what is
left with a single delivery.

  nevertwice verify examples/verify/check-then-act.ts
  nevertwice verify ./src/pay.ts#onPay --message m.json --schema s.sql --env DATABASE_URL=postgres

The module may say the rest itself:

  export const verify = { message: { id: 'm1', amount: 5 }, schema: 'CREATE TABLE …', seed: 'INSERT …' }

  --message FILE       the message as JSON; repeat it for several
  --resent FILE        as JSON what is other in a message that its producer sends again: { "offset": 43 }
  --schema SQL|FILE    tables, as SQL or the name of a .sql file
  --seed SQL|FILE      what is there before the first message
  --expire SQL|FILE    after it leases in tables have run out, as they do while a message waits for its redelivery
  --prune SQL|FILE     after it the records of what was done are gone, as they may be when a late copy comes
  --env NAME=VALUE     a variable of the handler; postgres, redis and http lead to servers that are started and held, sqlite
                       is a file with the schema; anything else is passed on. Default with a schema: DATABASE_URL=postgres
  --broker NAME        kafka, rabbitmq, sqs, sqs-fifo, nats or redis-streams: what can happen at all. Default rabbitmq
  --batch              the handler gets all messages as one array
  --manual-ack         the handler calls ack() of its second argument; otherwise returning is the ack
  --ignore NAME        a table, table.column or *.column that is not compared; may be repeated
  --accept NAME        a table, or http /path, whose effects may happen more than once; may be repeated
  --bound N            troubles in one execution, of all kinds together. Default 2
  --budget SECONDS     no new execution after this time. Default 60
  --postgres URL       a server on which a database may be created. Default: one is started
  --redis URL          a server whose database may be emptied. Default: one is started
  --replay TOKEN       plays one execution of a report again
  --keep-going         does not stop at the first failure
  --format NAME        terminal, json, mermaid, junit, html or psql. Default terminal
  --json               the same as --format json

Exit codes: 0 sound within the bound; 1 convicted; 2 unknown: nothing was found and that says little, or the command line,
the module, the schema or the server is wrong; 130 and 143 stopped by SIGINT and SIGTERM.`;

const WIDEST = 160;

export const command: Command = {
  help: HELP,
  async run(args, output) {
    try {
      return await run(args, output);
    } catch (error) {
      if (error instanceof VerifyError) throw new CommandError(error.message, { cause: error, exitCode: EXIT.unknown });
      if (error instanceof CommandError)
        throw new CommandError(error.message, { cause: error, exitCode: EXIT.unknown });
      throw error;
    }
  },
};

async function run(args: readonly string[], output: Output): Promise<number> {
  const many = { type: 'string', multiple: true } as const;
  const one = { type: 'string' } as const;
  const flag = { type: 'boolean' } as const;
  const { values, positionals } = parseCommand(
    'verify',
    args,
    {
      message: many,
      schema: one,
      seed: one,
      expire: one,
      prune: one,
      resent: one,
      env: many,
      broker: one,
      batch: flag,
      'manual-ack': flag,
      ignore: many,
      accept: many,
      bound: one,
      budget: one,
      postgres: one,
      redis: one,
      replay: one,
      'keep-going': flag,
      format: one,
      json: flag,
    },
    1,
  );
  const [handler] = positionals;
  if (handler === undefined) throw new CommandError('verify needs a module; see nevertwice verify --help');
  const format = formatFrom(values.json === true ? 'json' : values.format);
  const bound = values.bound === undefined ? undefined : wholeNumber('--bound', values.bound, 0, 9);
  const showing = showProgress(output, format === 'terminal');
  try {
    const report = await verify({
      handler,
      ...given({
        messages: values.message?.map(messageIn),
        schema: values.schema,
        seed: values.seed,
        expire: values.expire,
        prune: values.prune,
        resent: values.resent === undefined ? undefined : messageIn(values.resent),
        env: values.env === undefined ? undefined : Object.fromEntries(values.env.map(variable)),
        broker: values.broker as BrokerName | undefined,
        batch: values.batch,
        manualAck: values['manual-ack'],
        ignore: values.ignore,
        accept: values.accept,
        bounds: bound === undefined ? undefined : boundsOf(bound),
        budgetMs: values.budget === undefined ? undefined : 1_000 * wholeNumber('--budget', values.budget, 1, 86_400),
        postgres: values.postgres,
        redis: values.redis,
        replay: values.replay,
        keepGoing: values['keep-going'],
        onProgress: showing.progress,
      }),
    });
    output.erase();
    const width = Math.min(process.stdout.columns ?? 120, WIDEST);
    const command = commandOf(handler, values);
    output.result(render({ ...report, command }, format, { width, colour: process.stdout.hasColors?.() === true }));
    return { once: EXIT.done, convicted: EXIT.convicted, unknown: EXIT.unknown }[report.verdict];
  } finally {
    output.erase();
  }
}

/** What is told to a shell to get the same executions: without how it is shown, and without secrets. */
function commandOf(handler: string, values: Readonly<Record<string, unknown>>): string {
  const words = ['npx', 'nevertwice', 'verify', handler];
  for (const name of SAME_EXECUTIONS) {
    const value = values[name];
    if (value === true) words.push(`--${name}`);
    else if (value !== undefined) for (const one of [value].flat()) words.push(`--${name}`, shown(name, String(one)));
  }
  return words.map(shellWord).join(' ');
}

const SAME_EXECUTIONS = [
  'message',
  'schema',
  'seed',
  'expire',
  'prune',
  'resent',
  'env',
  'broker',
  'batch',
  'manual-ack',
  'ignore',
  'accept',
  'bound',
];

function shown(name: string, value: string): string {
  const [variable, to = ''] = value.split('=', 2);
  return name !== 'env' || /^(?:postgres|redis|http|sqlite)$/.test(to) ? value : `${variable}=…`;
}

function given<T extends object>(values: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as never;
}

function boundsOf(total: number): Partial<Bounds> {
  if (total < 3) return { total };
  return { total, preemptions: total - 1 };
}

function formatFrom(text: string | undefined): Format {
  const format = (text ?? 'terminal') as Format;
  if (FORMATS.includes(format)) return format;
  throw new CommandError(`--format is ${JSON.stringify(text)}; give one of ${FORMATS.join(', ')}`);
}

function messageIn(file: string): VerifyMessage {
  if (!existsSync(file)) throw new CommandError(`--message ${file} does not exist`);
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as VerifyMessage;
  } catch (error) {
    throw new CommandError(`--message ${file} is no JSON: ${(error as Error).message}`);
  }
}

function variable(text: string): [string, string] {
  const at = text.indexOf('=');
  if (at > 0) return [text.slice(0, at), text.slice(at + 1)];
  throw new CommandError(`--env is ${JSON.stringify(text)}; give NAME=VALUE, such as DATABASE_URL=postgres`);
}

const DRAW_EVERY_MS = 100;

function showProgress(output: Output, wanted: boolean): { progress?: NonNullable<VerifyOptions['onProgress']> } {
  if (!wanted || !output.isLive) return {};
  let drawn = 0;
  return {
    progress: ({ executions, perSecond, completeTo }: VerifyProgress) => {
      const now = performance.now();
      if (now - drawn < DRAW_EVERY_MS) return;
      drawn = now;
      const bound = completeTo < 0 ? '' : ` · everything with ${completeTo} troubles tried`;
      output.draw([`${number(executions)} executions · ${number(Math.round(perSecond))}/s${bound}`]);
    },
  };
}
