import type { Connection } from '../sqlite/connection.ts';
import type { LeaseFile } from './lease-file.ts';

/** Most rows removed in one transaction: other processes wait for the lock that long. */
const STEP = 1_000;
const PAUSE_MS = 5;
const LONGEST_INTERVAL_MS = 60_000;
/** Pages that one transaction gives back to the file system: 1 MiB. */
const PAGES = 256;

/**
 * Removes what has expired, in small steps beside the path. Looks again as long as there is anything that can expire,
 * whether or not anybody calls: a store that only forgets what is asked for again keeps everything else for ever.
 */
export class Sweeper {
  readonly #file: LeaseFile;
  readonly #retentionMs: number;
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(file: LeaseFile, retentionMs: number) {
    this.#file = file;
    this.#retentionMs = retentionMs;
  }

  /** There is something that will expire. */
  wake(): void {
    this.#after(this.#intervalMs);
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  get #intervalMs(): number {
    return Math.min(this.#retentionMs, LONGEST_INTERVAL_MS);
  }

  #after(ms: number): void {
    if (this.#stopped || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => void this.#sweep(), ms);
    // Nothing is lost by it when the process ends.
    this.#timer.unref();
  }

  async #sweep(): Promise<void> {
    // What is wrong with the file, the next call of the consumer meets too, and there somebody hears of it.
    const next = await this.#step().catch(() => this.#intervalMs);
    this.#timer = undefined;
    if (next !== undefined) this.#after(next);
  }

  /** Milliseconds until the next step; undefined when nothing is left that could expire. */
  #step(): Promise<number | undefined> {
    return this.#file.write((connection, now) => {
      const more = removeExpired(connection, now - this.#retentionMs) || giveBack(connection);
      if (more) return PAUSE_MS;
      const [row] = connection.all<{ any: number }>('SELECT EXISTS (SELECT 1 FROM ids) AS any');
      return row?.any === 1 ? this.#intervalMs : undefined;
    });
  }
}

/** True when there may be more. */
function removeExpired(connection: Connection, until: number): boolean {
  const remove = `DELETE FROM ids WHERE (consumer, key) IN
    (SELECT consumer, key FROM ids WHERE at <= ? ORDER BY at LIMIT ${STEP})`;
  return connection.run(remove, BigInt(until)) >= STEP;
}

/** Gives pages back while most of the file is free; less than that is used again by the next ids. True when there is more. */
function giveBack(connection: Connection): boolean {
  const [row] = connection.all<{ free: number; pages: number }>(
    'SELECT freelist_count AS free, page_count AS pages FROM pragma_freelist_count, pragma_page_count',
  );
  if (row === undefined || row.free < PAGES || row.free * 2 < row.pages) return false;
  connection.exec(`PRAGMA incremental_vacuum(${PAGES})`);
  return true;
}
