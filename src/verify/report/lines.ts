import type { Plan } from '../plan.ts';
import type { Conviction } from '../report.ts';
import type { Fault, TraceEvent } from '../trace.ts';
import type { Step } from './reading.ts';
import { statementOf } from './statement.ts';
import { clean, listed, many } from './text.ts';

/** One line of the picture. */
export interface Line {
  /** Undefined for what concerns all of them: the broker's lines. */
  readonly who: number | undefined;
  readonly text: string;
  /** `→ UPDATE 1`, or empty. */
  readonly result: string;
  readonly failed: boolean;
  /** What was done to it: `⚡ executed, reply lost`. */
  readonly marks: readonly string[];
  /** Nothing can save it from here on. */
  readonly sealed: boolean;
  /** The events that it tells of. */
  readonly events: readonly number[];
  readonly isDelivery: boolean;
  /** How it is called where several lines become one. */
  readonly short: string;
}

export const SEALED = '← from here nothing can save it';

const FAULTS: Readonly<Record<Fault, string>> = {
  crash: '⚡ killed before it (SIGKILL)',
  reset: '⚡ connection cut before it',
  'reply-lost': '⚡ executed, reply lost',
  'in-flight': '⚡ killed, and it is still on its way',
};

/** Every event as a line of its own, but for those that others say already. */
export function linesOf(conviction: Conviction, plan: Plan): readonly Line[] {
  const { events } = conviction.trace;
  const connections = connectionsOf(events);
  const lines: Line[] = [];
  let aside: number[] = [];
  events.forEach((event, at) => {
    if (isImplied(event, plan)) {
      aside.push(at);
      return;
    }
    const previous = lines.at(-1);
    const why = event.event === 'deliver' ? failureOf(events, lines, event.who) : undefined;
    if (why !== undefined && previous !== undefined) {
      lines.pop();
      lines.push({ ...lineOf(event, plan, connections, why), events: [...previous.events, ...aside, at] });
    } else lines.push({ ...lineOf(event, plan, connections), events: [...aside, at] });
    aside = [];
  });
  return sealed(lines, conviction.sealedAt);
}

/** With one message, that it is delivered goes without saying. */
function isImplied(event: TraceEvent, plan: Plan): boolean {
  return event.event === 'deliver' && event.because === undefined && plan.deliveries.length === 1;
}

/** The error of a nack right before: one line says both. */
function failureOf(events: readonly TraceEvent[], lines: readonly Line[], who: number): string | undefined {
  const last = lines.at(-1);
  const event = events[last?.events.at(-1) ?? -1];
  if (event?.event !== 'step' || event.place !== 'broker' || event.who !== who) return undefined;
  return /^nack \((.*)\)$/s.exec(event.text)?.[1];
}

function sealed(lines: readonly Line[], sealedAt: number | undefined): readonly Line[] {
  if (sealedAt === undefined) return lines;
  const at = lines.findIndex(line => line.events.some(event => event >= sealedAt));
  return lines.map((line, i) => (i === at ? { ...line, sealed: true } : line));
}

function lineOf(event: TraceEvent, plan: Plan, connections: ReadonlyMap<TraceEvent, number>, failure?: string): Line {
  const line = (who: number | undefined, text: string, more: Partial<Line> = {}): Line => ({
    who,
    text: clean(text),
    result: '',
    failed: false,
    marks: [],
    sealed: false,
    events: [],
    isDelivery: false,
    short: clean(text),
    ...more,
  });
  switch (event.event) {
    case 'deliver': {
      const names = listed(event.messages.map(n => messageName(plan, n)));
      const again = event.because === undefined ? '' : ' again';
      const because =
        event.because === undefined ? '' : `: ${event.because}${failure === undefined ? '' : ` (${failure})`}`;
      const clock = event.ahead ? ', whose clock is an hour ahead' : '';
      const gone = event.evicted ? ', when the records are gone' : '';
      return line(undefined, `deliver ${names}${again} to consumer ${event.who}${clock}${gone}${because}`, {
        isDelivery: true,
      });
    }
    case 'step':
      return stepLine(event, line, connections.get(event));
    case 'land':
      return line(event.who, `lands now: ${placed(event.place, event.text)}`, {
        result: resultOf(event.text, event.result),
        failed: isError(event.result),
      });
    case 'unblocked':
      return line(event.who, `${event.paused ? 'goes on' : 'gets its lock'}: ${event.text}`, {
        result: resultOf(event.text, event.result),
        failed: isError(event.result),
      });
    case 'exited':
      return line(event.who, 'its process ended');
  }
}

function stepLine(
  step: Step,
  line: (who: number, text: string, more: Partial<Line>) => Line,
  connection: number | undefined,
): Line {
  const text = placed(step.place, step.text);
  const { label } = statementOf(step.place, step.text);
  return line(step.who, connection === undefined ? text : `[connection ${connection}] ${text}`, {
    result: step.paused
      ? '… has read, and stands still before it writes'
      : step.waited
        ? '… waits for a lock'
        : step.result === undefined || step.place === 'broker'
          ? ''
          : resultOf(step.text, step.result),
    failed: step.failed,
    marks:
      step.fault === undefined
        ? []
        : [step.fault === 'reset' && step.place === 'broker' ? '⚡ lost on its way to the broker' : FAULTS[step.fault]],
    short: clean(label),
  });
}

function placed(place: Step['place'], text: string): string {
  return place === 'redis' || place === 'http' || place === 'sqlite' ? `${place} ${text}` : text;
}

/** `COMMIT → COMMIT` says nothing. */
function resultOf(text: string, result: string): string {
  const said = clean(result);
  if (said === '' || said.toLowerCase() === text.toLowerCase()) return '';
  return isError(said) ? `→ ✖ ${said}` : `→ ${said}`;
}

function isError(result: string): boolean {
  return /^(?:[0-9A-Z]{5}|SQLITE_[A-Z_]+): /.test(result);
}

export function messageName(plan: Plan, n: number): string {
  const { id } = plan.messages[n] ?? {};
  return typeof id === 'string' || typeof id === 'number' ? clean(String(id)) : `message ${n + 1}`;
}

/**
 * Numbers of connections, for the steps of those consumers only that used several at a time: one that was opened because the
 * last was cut says nothing.
 */
function connectionsOf(events: readonly TraceEvent[]): ReadonlyMap<TraceEvent, number> {
  const numbers = new Map<TraceEvent, number>();
  for (const who of new Set(events.map(event => event.who))) {
    const steps = events.filter(event => event.event === 'step' && event.who === who && event.connection > 0);
    const order: string[] = [];
    let matters = false;
    let last: Step | undefined;
    for (const event of events) {
      if (event.who !== who) continue;
      if (event.event !== 'step') {
        if (event.event === 'deliver') last = undefined;
        continue;
      }
      if (event.connection === 0) continue;
      if (
        last !== undefined &&
        last.place === event.place &&
        last.connection !== event.connection &&
        last.fault === undefined
      )
        matters = true;
      last = event;
    }
    if (!matters) continue;
    for (const event of steps) {
      const name = event.event === 'step' ? `${event.place} ${event.connection}` : '';
      if (!order.includes(name)) order.push(name);
      numbers.set(event, order.indexOf(name) + 1);
    }
  }
  return numbers;
}

/** What the same thing over and over comes to. */
export function withoutRepeats(lines: readonly Line[]): readonly Line[] {
  const starts = lines.flatMap((line, i) => (line.isDelivery ? [i] : []));
  const blocks = starts.map((start, i) => lines.slice(start, starts[i + 1]));
  // Without the deliveries, which tell how the one before ended; the nack of the last one has none to tell it.
  const keyOf = (block: readonly Line[]) =>
    block
      .filter(line => !line.isDelivery && !line.text.startsWith('nack'))
      .map(line => `${line.text} ${line.result} ${line.marks}`)
      .join('\n');
  const result = lines.slice(0, starts[0] ?? lines.length);
  for (let i = 0; i < blocks.length; ) {
    const block = blocks[i]!;
    let same = i + 1;
    while (same < blocks.length && keyOf(blocks[same]!) === keyOf(block)) same++;
    result.push(...block);
    const repeats = same - i - 1;
    if (repeats > 1) {
      const repeated = blocks.slice(i + 1, same).flat();
      result.push({
        ...block[0]!,
        text: `and the same at ${many(repeats, 'further delivery', 'further deliveries')}`,
        short: 'the same again',
        marks: [],
        sealed: repeated.some(line => line.sealed),
        events: repeated.flatMap(line => line.events),
      });
    } else if (repeats === 1) result.push(...blocks[i + 1]!);
    i = same;
  }
  return result;
}

/**
 * At most so many lines. Neighbours become one, those first that matter least: reads and acks, then other statements, then
 * what the explanation rests on. What was done to the handler stays as long as there is anything else.
 */
export function atMost(lines: readonly Line[], most: number, weightOf: (line: Line) => number): readonly Line[] {
  const left: { line: Line; weight: number; of: readonly Line[] }[] = lines.map(line => ({
    line,
    weight: weightOf(line),
    of: [line],
  }));
  while (left.length > most) {
    let best = 0;
    let least = Number.POSITIVE_INFINITY;
    for (let i = 0; i + 1 < left.length; i++) {
      const [one, two] = [left[i]!, left[i + 1]!];
      const apart = one.line.who === two.line.who ? 0 : 0.5;
      const weight = Math.max(one.weight, two.weight) + apart;
      if (weight < least) [least, best] = [weight, i];
    }
    const [one, two] = [left[best]!, left[best + 1]!];
    const of = [...one.of, ...two.of];
    left.splice(best, 2, { line: folded(of), weight: Math.max(one.weight, two.weight), of });
  }
  return left.map(({ line }) => line);
}

function folded(lines: readonly Line[]): Line {
  const consumers = new Set(lines.map(line => line.who));
  const [first] = lines;
  const shared = consumers.size === 1;
  const text = shared
    ? lines.map(line => line.short).join('; ')
    : lines.map(line => (line.who === undefined ? line.short : `consumer ${line.who}: ${line.short}`)).join('; ');
  return {
    ...first!,
    who: shared ? first!.who : undefined,
    text: `… ${text}`,
    result: '',
    failed: lines.some(line => line.failed),
    marks: lines.flatMap(line => line.marks),
    sealed: lines.some(line => line.sealed),
    events: lines.flatMap(line => line.events),
    isDelivery: false,
    short: text,
  };
}
