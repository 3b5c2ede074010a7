import type { LetterEvent, StoredLetter } from '../../ports/letters.ts';
import type { DeadLetter } from '../../ports/store.ts';

/** Columns as a client gives them: numbers as numbers or text, bytes as hex, times in milliseconds since 1970. */
export type LetterRow = Readonly<Record<string, unknown>>;

export function letterFrom(consumer: string, row: LetterRow): StoredLetter {
  const text = (name: string) => (row[name] ?? undefined) as string | undefined;
  const date = (name: string) => (row[name] === null ? undefined : new Date(Number(row[name])));
  const original = text('original');
  return {
    id: text('id')!,
    consumer,
    dedupe: text('dedupe')!,
    messageId: text('message_id'),
    kind: text('kind')!,
    reason: text('reason')!,
    attempts: Number(row.attempts),
    lane: text('lane')!,
    position: text('position'),
    type: text('type'),
    key: text('key'),
    time: date('time'),
    headers: JSON.parse(text('headers')!) as DeadLetter['headers'],
    payload: Buffer.from(text('payload')!, 'hex'),
    asJson: flag(row.as_json),
    sealed: flag(row.sealed),
    failure: text('failure'),
    errors: JSON.parse(text('errors') ?? '[]') as DeadLetter['errors'],
    firstAt: date('first_at')!,
    lastAt: date('at')!,
    closedAt: date('closed_at'),
    revision: Number(row.revision ?? 0),
    history: JSON.parse(text('history') ?? '[]') as readonly LetterEvent[],
    outcome: text('outcome') as StoredLetter['outcome'],
    original: original === undefined ? undefined : originalFrom(original),
  };
}

const flag = (value: unknown) => (value === 'true' || Number(value) === 1 ? true : undefined);

function originalFrom(text: string): StoredLetter['original'] {
  const { headers, payload } = JSON.parse(text) as { readonly headers: string; readonly payload: string };
  return { headers: JSON.parse(headers) as DeadLetter['headers'], payload: Buffer.from(payload, 'hex') };
}
