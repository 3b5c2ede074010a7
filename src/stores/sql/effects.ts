import type { EffectAnswer, EffectIntent, EffectRecord, EffectRows } from '../../ports/effects.ts';

export interface EffectsDialect {
  /** Quoted. */
  readonly table: string;
  /** Milliseconds since 1970 by the store's clock, at the moment of the statement. */
  readonly now: string;
  /** The nth value, from 1, as a text, a whole number or a boolean. */
  text(n: number): string;
  whole(n: number): string;
  /** Runs one statement, which is durable when it resolves. */
  run(text: string, values: readonly (string | number | null)[]): Promise<readonly Readonly<Record<string, unknown>>[]>;
}

/** The row of an intent may be gone or have changed between the two statements of a round; then another round tells. */
const ROUNDS = 10;

/**
 * Every call is one row, found by its key. It goes from `intent` to `done`, or to `released` where it was not made; an
 * intent whose `until` is over, and which is not done, is what nobody knows the outcome of.
 */
export function effectRows(d: EffectsDialect, beside: EffectRows['beside']): EffectRows {
  const { table, now, text, whole } = d;
  const begin = `INSERT INTO ${table} AS e (key, consumer, message_id, name, fp, nonce, until, state, unknown, calls, at)
VALUES (${text(1)}, ${text(2)}, ${text(3)}, ${text(4)}, ${text(5)}, ${text(6)}, ${now} + ${whole(7)}, 'intent', 0, 1, ${now})
ON CONFLICT (key) DO UPDATE SET
  unknown = CASE WHEN e.nonce = excluded.nonce THEN e.unknown WHEN e.state = 'intent' THEN 1 ELSE 0 END,
  calls = CASE WHEN e.nonce = excluded.nonce THEN e.calls ELSE e.calls + 1 END,
  state = 'intent', nonce = excluded.nonce, until = excluded.until, fp = coalesce(e.fp, excluded.fp)
WHERE (e.nonce = excluded.nonce AND e.state = 'intent')
   OR ((e.fp IS NULL OR excluded.fp IS NULL OR e.fp = excluded.fp)
       AND (e.state = 'released' OR (e.state = 'intent' AND e.until <= ${now} AND ${whole(8)} = 1)))
RETURNING unknown`;
  const look = `SELECT state, fp, result, CASE WHEN until <= ${now} THEN 1 ELSE 0 END AS over FROM ${table} WHERE key = ${text(1)}`;
  const owned = `WHERE key = ${text(1)} AND nonce = ${text(2)} AND state = 'intent' RETURNING key`;
  const complete = `UPDATE ${table} SET result = ${text(3)}, state = 'done' ${owned}`;
  const renew = `UPDATE ${table} SET until = ${now} + ${whole(3)} ${owned}`;
  const giveUp = `UPDATE ${table} SET state = ${text(3)}, until = ${now} ${owned}`;
  const shown = `CASE state WHEN 'intent' THEN CASE WHEN until <= ${now} THEN 'unknown' ELSE 'calling' END
  WHEN 'released' THEN 'not-done' ELSE state END`;
  const list = `SELECT * FROM (SELECT key, consumer, message_id, name, ${shown} AS shown, calls, at FROM ${table}) AS all_of_them
WHERE (${text(1)} IS NULL OR consumer = ${text(1)}) AND (${text(2)} IS NULL OR shown = ${text(2)}) ORDER BY at DESC, key`;
  const decide = `UPDATE ${table} SET state = ${text(2)}, result = ${text(3)}
WHERE key = ${text(1)} AND state = 'intent' AND until <= ${now} RETURNING key`;

  return {
    beside,
    async begin(intent) {
      const { key, consumer, messageId, name, fingerprint, nonce, leaseMs, takeOver } = intent;
      const values = [key, consumer, messageId, name, fingerprint ?? null, nonce, leaseMs, takeOver ? 1 : 0];
      for (let round = 0; round < ROUNDS; round++) {
        const [ours] = await d.run(begin, values);
        if (ours !== undefined) return { answer: 'call', unknown: Number(ours.unknown) === 1 };
        const [row] = await d.run(look, [key]);
        const answer = row === undefined ? undefined : answerOf(row, intent);
        if (answer !== undefined) return answer;
      }
      return { answer: 'busy' };
    },
    async renew(key, nonce, leaseMs) {
      return (await d.run(renew, [key, nonce, leaseMs])).length > 0;
    },
    async complete(key, nonce, result) {
      return (await d.run(complete, [key, nonce, result ?? null])).length > 0;
    },
    async giveUp(key, nonce, notDone) {
      await d.run(giveUp, [key, nonce, notDone ? 'released' : 'intent']);
    },
    async list({ consumer, state }) {
      return (await d.run(list, [consumer ?? null, state ?? null])).map(
        (row): EffectRecord => ({
          key: String(row.key),
          consumer: String(row.consumer),
          messageId: String(row.message_id),
          name: String(row.name),
          state: row.shown as EffectRecord['state'],
          calls: Number(row.calls),
          at: new Date(Number(row.at)),
        }),
      );
    },
    async decide(key, decision) {
      const values = decision === 'not-done' ? [key, 'released', null] : [key, 'done', decision.result ?? null];
      return (await d.run(decide, values)).length > 0;
    },
  };
}

/** Undefined where the row has become free since: the next round takes it. */
function answerOf(
  row: Readonly<Record<string, unknown>>,
  { fingerprint, takeOver }: EffectIntent,
): EffectAnswer | undefined {
  if (row.fp !== null && fingerprint !== undefined && row.fp !== fingerprint) return { answer: 'conflict' };
  if (row.state === 'done') return { answer: 'done', result: row.result === null ? undefined : String(row.result) };
  if (row.state !== 'intent') return undefined;
  if (Number(row.over) === 0) return { answer: 'busy' };
  return takeOver ? undefined : { answer: 'unknown' };
}
