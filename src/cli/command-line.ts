import { readFileSync } from 'node:fs';
import { CommandError } from './command-error.ts';
import { EXIT } from './exit-codes.ts';
import { flushed, Output, surviveClosedPipes } from './output.ts';

/** A command: given what follows its name, resolves with the exit code. */
export interface Command {
  /** What `--help` prints: teaches, then lists. */
  readonly help: string;
  run(args: readonly string[], output: Output): Promise<number>;
}

// Each in a file of its own that is loaded only when it is asked for: `--version` must not wait for the demo.
const COMMANDS: Readonly<Record<string, () => Promise<{ readonly command: Command }>>> = {
  run: () => import('./commands/run.ts'),
  migrate: () => import('./commands/migrate.ts'),
  stats: () => import('./commands/stats.ts'),
  positions: () => import('./commands/positions.ts'),
  dead: () => import('./commands/dead.ts'),
  effects: () => import('./commands/effects.ts'),
  relay: () => import('./commands/relay.ts'),
  outbox: () => import('./commands/outbox.ts'),
  verify: () => import('./commands/verify.ts'),
  demo: () => import('./commands/demo.ts'),
};

const HELP = `nevertwice: every message's effect happens once, however often the message is delivered.

  nevertwice run <module> [--input FILE|-] [--store URL]   runs the consumer that the module exports
  nevertwice migrate [<module>] [--store URL] [--print]    creates or upgrades the tables of a store
  nevertwice stats [<module>] [--store URL]                what each consumer has done so far
  nevertwice positions [list | accept | reset] …           where consumers stand by position, and answers
  nevertwice dead [list | show | retry | discard | export] …  dead letters, and sending them through again
  nevertwice effects [list | decide] …                     calls to others, and what became of those nobody knows of
  nevertwice relay <module> | --store URL --to URL         publishes what waits in the outbox of a store
  nevertwice outbox [list | retry | discard] …             what waits there, what is parked, and what becomes of it
  nevertwice verify <module>[#export] …                    looks for ways in which a handler acts twice or never
  nevertwice demo                                          shows on your machine what goes wrong without it

  nevertwice <command> --help    explains a command, with examples
  nevertwice --version

Every command takes --json: its result as JSON on standard output, and nothing else there.

Exit codes: 0 done; 1 a mistake in the command line, the module or the input; 2 the store cannot be reached or its
tables do not fit; 3 the demo did not prove what it should; 70 an unexpected error; 130 and 143 stopped by SIGINT and
SIGTERM. A dead letter is a decision and no failure: it is counted, and the exit code stays 0.`;

/** Runs the program and ends the process: a module may hold connections that would keep it alive. */
export async function commandLine(args: readonly string[]): Promise<void> {
  surviveClosedPipes();
  const output = new Output();
  output.takeWarnings();
  output.takeConsole();
  let code: number;
  try {
    code = await dispatch(args, output);
  } catch (error) {
    const { describeFailure } = await import('./failure.ts');
    const failure = describeFailure(error);
    output.note(failure.text);
    code = failure.exitCode;
  }
  await flushed();
  process.exit(code);
}

async function dispatch([name, ...rest]: readonly string[], output: Output): Promise<number> {
  switch (name) {
    case '--version':
    case '-v':
      output.result(version());
      return EXIT.done;
    case undefined:
      output.note(HELP);
      return EXIT.mistake;
    case '--help':
    case '-h':
      output.result(HELP);
      return EXIT.done;
    case 'help': {
      output.result(rest[0] === undefined ? HELP : (await commandNamed(rest[0])).help);
      return EXIT.done;
    }
  }
  const command = await commandNamed(name);
  if (asksForHelp(rest)) {
    output.result(command.help);
    return EXIT.done;
  }
  return command.run(rest, output);
}

/** Also beside arguments that are wrong: who asks for help may not have them right yet. */
function asksForHelp(args: readonly string[]): boolean {
  const end = args.indexOf('--');
  return args.slice(0, end === -1 ? args.length : end).some(arg => arg === '--help' || arg === '-h');
}

async function commandNamed(name: string): Promise<Command> {
  const load = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (load === undefined) {
    throw new CommandError(`there is no command ${name}; there are ${Object.keys(COMMANDS).join(', ')}`);
  }
  return (await load()).command;
}

function version(): string {
  const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(manifest) as { readonly version: string }).version;
}
