const MOST_EVENTS = 50;

/**
 * The value of `history` with one event more, and without the oldest of too many. `action`, `by` and `reason` are SQL: of what
 * was done, by whom and why.
 */
export function withEvent(action: string, by: string, reason: string): string {
  return `(SELECT (CASE WHEN jsonb_array_length(h) < ${MOST_EVENTS} THEN h ELSE h - 0 END || jsonb_strip_nulls(jsonb_build_object(
    'action', ${action}::text, 'at', to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'by', ${by}::text,
    'reason', ${reason}::text)))::text
  FROM (SELECT coalesce(history, '[]')::jsonb AS h) AS e)`;
}
