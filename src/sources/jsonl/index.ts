import { NevertwiceError } from '../../errors.ts';
import { type Clock, systemClock } from '../../ports/clock.ts';
import type { Lag, Lane, ReceiveOptions, Source } from '../../ports/source.ts';
import { FileBytes } from './bytes.ts';
import { checkInput, type Input, inputsFrom, type JsonlInput, openFile, openStream } from './input.ts';
import { JsonlLane, type WaitingLine } from './lane.ts';
import { LineReader } from './lines.ts';
import { FilePosition } from './position.ts';

export type { JsonlInput } from './input.ts';
export type { WaitingLine } from './lane.ts';

/** Something that a person should know and that stops nothing. */
export interface JsonlWarning {
  /**
   * `NT_INPUT_CHANGED`: the file is not the one that the stored position belongs to, so it is read from its begin; the
   * inbox drops what was done. `NT_POSITION_UNSAVED`: the last position could not be saved, so the next run reads
   * some lines again.
   */
  readonly code: 'NT_INPUT_CHANGED' | 'NT_POSITION_UNSAVED';
  readonly message: string;
  /** The input as it was named. */
  readonly input: string;
  readonly cause?: unknown;
}

export interface JsonlOptions {
  /** Longest line in bytes; a longer one becomes a dead letter with its first 64 KiB. Default 1 MiB. */
  readonly maxLineBytes?: number;
  /** Least time between two saves of one file's position, in milliseconds; a crash reads that much again. Default 200. */
  readonly saveEveryMs?: number;
  /** Default: `process.emitWarning` with the code. */
  readonly onWarning?: (warning: JsonlWarning) => void;
  /** Default: the system's. */
  readonly clock?: Clock;
}

export interface JsonlSource extends Source {
  /** Last lines of files that were not all there yet in the latest run: not delivered, and read again by the next run. */
  readonly waiting: readonly WaitingLine[];
}

/**
 * Messages from files of one JSON object a line, or from standard input; ends with the input. Every file is a lane.
 *
 *     {"id":"m1","type":"deposit","key":"account-7","time":"2024-05-01T10:00:00Z","headers":{"trace":"1"},"body":{"amount":500}}
 *
 * Only `body` must be there; `id` becomes the header `message-id`. Lines that `kcat -J` printed are read as well. A line
 * that cannot be read is delivered with a `fault` that names it, so that it becomes a dead letter. Blank lines, CRLF and
 * a byte order mark are fine.
 *
 * How far each file is done is kept in the consumer's store, up to the first line that is not settled, so that the next
 * run goes on there; a file that was replaced or cut since starts again from its begin. A stream has no position: what
 * is not settled when it is left comes again only if its writer sends it again. Memory stays constant for any size.
 *
 * @throws NevertwiceError NT_CONFIG for no input, one input twice, or a wrong option; from `receive` for an input that
 * does not exist or cannot be read
 */
export function jsonlSource(input: JsonlInput, options: JsonlOptions = {}): JsonlSource {
  const settings: Required<JsonlOptions> = {
    maxLineBytes: atLeast(1, 'maxLineBytes', options.maxLineBytes ?? 1024 * 1024),
    saveEveryMs: atLeast(0, 'saveEveryMs', options.saveEveryMs ?? 200),
    onWarning: options.onWarning ?? emitWarning,
    clock: options.clock ?? systemClock,
  };
  const inputs = inputsFrom(input);
  const waiting: WaitingLine[] = [];
  let lanes: JsonlLane[] = [];
  return {
    name: `jsonl ${inputs.length === 1 ? inputs[0]!.name : `${inputs.length} files`}`,
    capabilities: { retryLater: false, finite: true, readAhead: true },
    waiting,
    receive: run => ({
      [Symbol.asyncIterator]: () => {
        waiting.length = 0;
        lanes = [];
        return reading(inputs, settings, run, { line: line => waiting.push(line), lane: lane => lanes.push(lane) });
      },
    }),
    lag: () => lagOf(inputs, lanes),
  };
}

/** Of all inputs together; undefined before all are open, and when one of them is a stream. */
function lagOf(inputs: readonly Input[], lanes: readonly JsonlLane[]): Lag | undefined {
  if (lanes.length < inputs.length) return undefined;
  let amount = 0;
  for (const { lag } of lanes) {
    if (lag === undefined) return undefined;
    amount += lag;
  }
  return { amount, unit: 'bytes' };
}

/** What a run tells of itself. */
interface Seen {
  lane(lane: JsonlLane): void;
  line(waiting: WaitingLine): void;
}

// Not a generator: that could only close its files when it ends, and it ends with the last lane that it yields.
function reading(
  inputs: readonly Input[],
  settings: Required<JsonlOptions>,
  run: ReceiveOptions,
  seen: Seen,
): AsyncIterator<Lane> {
  const left = [...inputs];
  const opened: { input: Input; lane: JsonlLane }[] = [];
  return {
    async next() {
      // All of them before the first: a wrong name should be told before any message is handled.
      if (opened.length === 0) for (const input of left) await checkInput(input);
      const input = run.signal.aborted ? undefined : left.shift();
      if (input === undefined) return { done: true, value: undefined };
      const lane = await openLane(input, settings, run, line => seen.line(line));
      opened.push({ input, lane });
      seen.lane(lane);
      return { done: false, value: lane };
    },
    async return() {
      left.length = 0;
      for (const { input, lane } of opened) {
        try {
          await lane.close();
        } catch (cause) {
          const message = `the position of ${input.name} could not be saved, so the next run reads some lines again`;
          settings.onWarning({ code: 'NT_POSITION_UNSAVED', message, input: input.name, cause });
        }
      }
      return { done: true, value: undefined };
    },
  };
}

async function openLane(
  input: Input,
  settings: Required<JsonlOptions>,
  { consumer, positions, signal }: ReceiveOptions,
  onWaiting: (line: WaitingLine) => void,
): Promise<JsonlLane> {
  const { maxLineBytes, saveEveryMs, onWarning, clock } = settings;
  const id = `jsonl:${input.identity}`;
  const common = { id, name: input.name, maxLineBytes, stopping: signal, onWaiting };
  const stream = await openStream(input);
  if (stream !== undefined) {
    const lines = new LineReader(maxLineBytes, { offset: 0, line: 0 });
    return new JsonlLane({ ...common, bytes: stream, lines, position: undefined });
  }
  const handle = await openFile(input);
  try {
    const { position, start, changed } = await FilePosition.load({
      handle,
      positions,
      consumer,
      lane: id,
      clock,
      saveEveryMs,
    });
    if (changed) {
      const message = `${input.name} is not the file that the stored position belongs to; it is read from its begin`;
      onWarning({ code: 'NT_INPUT_CHANGED', message, input: input.name });
    }
    const bytes = new FileBytes(input.name, handle, start.offset);
    return new JsonlLane({ ...common, bytes, lines: new LineReader(maxLineBytes, start), position });
  } catch (error) {
    await handle.close();
    throw error;
  }
}

function emitWarning({ code, message }: JsonlWarning): void {
  process.emitWarning(message, { type: 'NevertwiceWarning', code });
}

function atLeast(least: number, name: string, value: number): number {
  if (Number.isFinite(value) && value >= least) return value;
  throw new NevertwiceError(
    'NT_CONFIG',
    `${name} is ${value}, which is no usable limit; give a number of at least ${least}`,
  );
}
