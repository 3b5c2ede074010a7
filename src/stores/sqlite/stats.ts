import type { Counts } from '../../ports/store.ts';
import type { Connection } from './connection.ts';
import type { Names } from './options.ts';

interface Row {
  readonly name: string;
  readonly processed: number;
  readonly letters: number;
  readonly oldest: number | null;
  readonly newest: number | null;
}

/**
 * Counts all rows: a job for a person's question, not for a scrape every few seconds. `processed` is what to count: a table
 * or a subquery with `consumer` and `at`.
 */
export function readCounts(
  connection: Connection,
  { quoted }: Names,
  processed: string = quoted.inbox,
): readonly Counts[] {
  const rows = connection.all<Row>(`SELECT c.name, coalesce(i.processed, 0) AS processed, i.oldest, i.newest,
      (SELECT count(*) FROM ${quoted.deadLetters} d WHERE d.consumer = c.id AND d.closed_at IS NULL) AS letters
    FROM ${quoted.consumers} c LEFT JOIN (
      SELECT consumer, count(*) AS processed, min(at) AS oldest, max(at) AS newest FROM ${processed} GROUP BY consumer
    ) i ON i.consumer = c.id
    ORDER BY c.name`);
  return rows.map(row => ({
    consumer: row.name,
    processed: Number(row.processed),
    deadLetters: Number(row.letters),
    oldest: dateOf(row.oldest),
    newest: dateOf(row.newest),
  }));
}

function dateOf(ms: number | null): Date | undefined {
  return ms === null ? undefined : new Date(Number(ms));
}
