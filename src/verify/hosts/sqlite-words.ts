/** The pipe of a process over which it asks, after stdin, stdout, stderr and the one of `fork`. */
export const SQLITE_PIPE = 4;

/** What a process says of its SQLite file, one JSON a line. After each it waits for a word of `ToSqlite`. */
export type FromSqlite =
  /** It would run this statement. */
  | { readonly say: 'ask'; readonly connection: number; readonly text: string }
  /** It has run it. */
  | { readonly say: 'did'; readonly text: string; readonly failed: boolean }
  /** Another process has the lock that it needs, and its own limit lets it wait. */
  | { readonly say: 'waits' };

/** After `ask`: `go`. After `did`: `on`. After `waits`: `again`, or `late` when its own limit is over. */
export type ToSqlite = 'go' | 'on' | 'again' | 'late';
