import { readFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { dirname, resolve } from 'node:path';
import type { Consumer } from '../../create-consumer.ts';
import type { LetterFilter } from '../../ports/letters.ts';
import type { RedrivenLetter, RedriveSummary } from '../../redrive.ts';
import type { MessageEdit } from '../../redriven.ts';
import { wholeNumber } from '../arguments.ts';
import { CommandError } from '../command-error.ts';
import { EXIT } from '../exit-codes.ts';
import { loadConsumer } from '../load-consumer.ts';
import type { Output } from '../output.ts';
import { number } from '../progress.ts';
import { openStore, STORE_FORMS } from '../store-url.ts';
import { oneLine } from './format.ts';

export interface RetryFlags {
  readonly store?: string;
  readonly json?: boolean;
  readonly by?: string;
  readonly reason?: string;
  readonly body?: string;
  readonly header?: string[];
  readonly rate?: string;
  readonly max?: string;
  readonly 'dry-run'?: boolean;
}

/** Loads the consumer as `run` does, and sends its letters through it in this process. */
export async function retry(
  path: string | undefined,
  filter: LetterFilter,
  flags: RetryFlags,
  output: Output,
): Promise<number> {
  if (path === undefined) {
    throw new CommandError('dead retry needs the module whose handler is to try again: nevertwice dead retry <module>');
  }
  const edit = editFrom(flags);
  if (edit !== undefined && flags.reason === undefined) {
    throw new CommandError('a message is changed for good; say why with --reason');
  }
  const consumer = await loadConsumer(path);
  if (typeof (consumer as Partial<Consumer>).redrive !== 'function') {
    throw new CommandError(
      `module ${path} uses an older nevertwice than this one, which cannot redrive; upgrade it there`,
    );
  }
  const opened = flags.store === undefined ? undefined : await openStore(flags.store, dirname(resolve(path)));
  if (opened === undefined && consumer.store === undefined) {
    throw new CommandError(`consumer ${consumer.name} has no store; give --store URL (${STORE_FORMS})`);
  }
  const stopping = stopOnSignals();
  const decided: object[] = [];
  try {
    const summary = await consumer.redrive({
      filter,
      ...(edit === undefined ? {} : { edit }),
      ...(opened === undefined ? {} : { store: opened.store }),
      by: whoever(flags),
      ...(flags.reason === undefined ? {} : { reason: flags.reason }),
      ...(flags.rate === undefined ? {} : { perSecond: wholeNumber('--rate', flags.rate, 1, 10_000) }),
      ...(flags.max === undefined ? {} : { most: wholeNumber('--max', flags.max, 1, 1_000_000_000) }),
      dryRun: flags['dry-run'] === true,
      signal: stopping.signal,
      onLetter: redriven => {
        if (flags.json === true) decided.push(asJson(redriven));
        else output.note(inWords(redriven));
      },
    });
    output.result(flags.json === true ? JSON.stringify({ ...summary, letters: decided }) : counts(summary));
  } finally {
    stopping.done();
    await (opened ?? { close: async () => consumer.store?.close() }).close();
  }
  return stopping.exitCode() ?? EXIT.done;
}

/** `--by`, or whoever is logged in here. */
export function whoever({ by }: { readonly by?: string }): string {
  return by ?? process.env.USER ?? userInfo().username;
}

function editFrom({ body, header }: RetryFlags): MessageEdit | undefined {
  if (body === undefined && header === undefined) return undefined;
  const headers = header?.map(text => {
    const at = text.indexOf('=');
    if (at < 1) throw new CommandError(`--header is ${JSON.stringify(text.slice(0, 50))}; give name=value`);
    return [text.slice(0, at), text.slice(at + 1)] as const;
  });
  return { headers: headers && Object.fromEntries(headers), body: body === undefined ? undefined : bodyFrom(body) };
}

function bodyFrom(file: string): Uint8Array {
  try {
    return readFileSync(file);
  } catch (cause) {
    throw new CommandError(`--body: ${file} cannot be read (${(cause as NodeJS.ErrnoException).code})`, { cause });
  }
}

function asJson({ letter, outcome, reason }: RedrivenLetter): object {
  return { id: letter.id, messageId: letter.messageId ?? null, outcome, reason: reason ?? null };
}

function inWords({ letter, outcome, reason }: RedrivenLetter): string {
  const why = reason === undefined ? '' : `: ${reason}`;
  return oneLine(`letter ${letter.id}, message ${letter.messageId ?? '-'}: ${outcome}${why}`);
}

function counts(summary: RedriveSummary): string {
  const always = ['processed', 'duplicate', 'failed'];
  return Object.entries(summary)
    .filter(([what, count]) => count > 0 || always.includes(what))
    .map(([what, count]) => `${what} ${number(count)}`)
    .join(' · ');
}

/** The letter in work is finished, and no other begun. */
function stopOnSignals() {
  const controller = new AbortController();
  let code: number | undefined;
  const onSignal = (signal: NodeJS.Signals) => {
    const first = !controller.signal.aborted;
    code = signal === 'SIGTERM' ? EXIT.terminated : EXIT.interrupted;
    if (!first) process.exit(code);
    controller.abort();
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  return {
    signal: controller.signal,
    exitCode: () => code,
    done() {
      process.off('SIGINT', onSignal);
      process.off('SIGTERM', onSignal);
    },
  };
}
