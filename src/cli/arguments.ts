import { type ParseArgsConfig, parseArgs } from 'node:util';
import { CommandError } from './command-error.ts';

type Options = NonNullable<ParseArgsConfig['options']>;
type Parsed<O extends Options> = ReturnType<typeof parseArgs<{ options: O; allowPositionals: true; strict: true }>>;

/**
 * A command's arguments. Everything unknown is refused: a misspelled `--store` must not fall back to another store.
 *
 * @param most how many arguments may stand beside the options
 * @throws CommandError naming the argument, and the help that lists the right ones
 */
export function parseCommand<O extends Options>(
  command: string,
  args: readonly string[],
  options: O,
  most: number,
): Parsed<O> {
  const parsed = parsedStrictly(command, args, options);
  const extra = parsed.positionals[most];
  if (extra !== undefined) {
    const repeat = 'input' in options ? ' (for several files repeat --input)' : '';
    throw new CommandError(`unexpected argument ${extra}${repeat}; see nevertwice ${command} --help`);
  }
  return parsed;
}

function parsedStrictly<O extends Options>(command: string, args: readonly string[], options: O): Parsed<O> {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true, strict: true }) as Parsed<O>;
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code?.startsWith('ERR_PARSE_ARGS_') !== true) throw cause;
    // Node's own words go on with advice about dashes, which confuses more than it helps.
    const what = message.split(/\.? To specify|\.?\n|\. Did you/, 1)[0];
    throw new CommandError(`${what}; see nevertwice ${command} --help`, { cause });
  }
}

/** A whole number given to an option. */
export function wholeNumber(option: string, text: string, least: number, most: number): number {
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw new CommandError(`${option} is ${JSON.stringify(text)}; give a whole number from ${least} to ${most}`);
}
