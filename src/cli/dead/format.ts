import type { StoredLetter } from '../../ports/letters.ts';
import { table } from '../table.ts';

const REASON_WIDTH = 60;

/** One row a letter. */
export function listed(letters: readonly StoredLetter[]): string {
  return table(
    ['id', 'consumer', 'message', 'kind', 'attempts', 'fingerprint', 'last', 'reason'],
    letters.map(letter => [
      letter.id,
      letter.consumer,
      letter.messageId ?? '-',
      letter.outcome ?? letter.kind,
      String(letter.attempts),
      letter.failure ?? '-',
      letter.lastAt.toISOString(),
      short(letter.reason),
    ]),
    new Set([4]),
  );
}

/** Letters that failed alike. */
export interface Group {
  readonly consumer: string;
  readonly fingerprint: string | undefined;
  readonly kind: string;
  /** Of the newest. */
  reason: string;
  letters: number;
  first: Date;
  last: Date;
}

export function grouped(groups: readonly Group[]): string {
  return table(
    ['letters', 'consumer', 'kind', 'fingerprint', 'first', 'last', 'reason'],
    groups.map(group => [
      String(group.letters),
      group.consumer,
      group.kind,
      group.fingerprint ?? '-',
      group.first.toISOString(),
      group.last.toISOString(),
      short(group.reason),
    ]),
    new Set([0]),
  );
}

function short(text: string): string {
  const line = oneLine(text);
  return line.length <= REASON_WIDTH ? line : `${line.slice(0, REASON_WIDTH - 1)}…`;
}

// A terminal obeys what stands in a text, and nobody knows who wrote this one.
const CONTROL = /\p{Cc}+/gu;

export function oneLine(text: string): string {
  return text.replace(CONTROL, ' ');
}

/** Everything but the body, as JSON has it too. */
export function asJson(letter: StoredLetter, withPayload: boolean): object {
  const { payload, original, dedupe: _, asJson: __, firstAt, lastAt, closedAt, failure, ...rest } = letter;
  return {
    ...rest,
    fingerprint: failure ?? null,
    firstAt,
    lastAt,
    closedAt: closedAt ?? null,
    bytes: payload.length,
    revised: original !== undefined,
    ...(withPayload ? bodyJson('body', 'payloadBase64', payload) : {}),
    ...(withPayload && original !== undefined
      ? { original: { headers: original.headers, ...bodyJson('body', 'payloadBase64', original.payload) } }
      : {}),
  };
}

/** A body that is JSON as its value, as an input file has it; any other as its bytes. */
export function bodyJson(name: string, bytesName: string, payload: Uint8Array): object {
  const text = Buffer.from(payload).toString('utf8');
  try {
    if (Buffer.from(text).equals(payload)) return { [name]: JSON.parse(text) };
  } catch {
    // Its bytes say what it is.
  }
  return { [bytesName]: Buffer.from(payload).toString('base64') };
}

/** One letter for a person. */
export function shown(letter: StoredLetter, withPayload: boolean): string {
  const rows: (readonly [string, string | undefined])[] = [
    ['letter', letter.id],
    ['consumer', letter.consumer],
    ['message', letter.messageId ?? '(no usable id)'],
    ['kind', letter.kind],
    ['reason', letter.reason],
    ['fingerprint', letter.failure],
    ['attempts', String(letter.attempts)],
    ['first', letter.firstAt.toISOString()],
    ['last', letter.lastAt.toISOString()],
    ['closed', letter.closedAt && `${letter.closedAt.toISOString()} ${letter.outcome ?? ''}`],
    ['lane', letter.lane],
    ['position', letter.position],
    ['type', letter.type],
    ['key', letter.key],
    ['time', letter.time?.toISOString()],
    ['revision', letter.revision === 0 ? undefined : String(letter.revision)],
    ...letter.headers.map(([name, value]) => ['header', `${name}: ${value}`] as const),
    ...(letter.errors ?? []).flatMap(({ name, code, message, frames = [] }, i) => [
      [i === 0 ? 'error' : 'caused by', `${name}${code === undefined ? '' : ` ${code}`}: ${message}`] as const,
      ...frames.slice(0, 3).map(frame => ['', `  ${frame}`] as const),
    ]),
    ...letter.history.map(
      ({ action, at, by, reason }) =>
        ['history', [at, action, by && `by ${by}`, reason && `(${reason})`].filter(Boolean).join(' ')] as const,
    ),
    [
      'body',
      withPayload ? Buffer.from(letter.payload).toString('utf8') : `${letter.payload.length} bytes; --payload shows it`,
    ],
  ];
  return rows
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name.padEnd(11)}  ${oneLine(value!)}`)
    .join('\n');
}

/** A letter as a line of an input file, with what else is known of it beside. */
export function exported(letter: StoredLetter): string {
  const { messageId, type, key, time, headers, payload } = letter;
  return JSON.stringify({
    ...(messageId === undefined ? {} : { id: messageId }),
    ...(type === undefined ? {} : { type }),
    ...(key === undefined ? {} : { key }),
    ...(time === undefined ? {} : { time }),
    headers: headers.filter(([name]) => messageId === undefined || name.toLowerCase() !== 'message-id'),
    ...bodyJson('body', 'payloadBase64', payload),
    letter: asJson(letter, false),
  });
}
