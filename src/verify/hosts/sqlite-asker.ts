import { readSync, writeSync } from 'node:fs';
import { type FromSqlite, SQLITE_PIPE, type ToSqlite } from './sqlite-words.ts';

const bytes = Buffer.alloc(64);
const never = new Int32Array(new SharedArrayBuffer(4));
let heard = '';

/** Says something and blocks the whole process until there is an answer, as a statement of SQLite does. */
export function ask(what: FromSqlite): ToSqlite {
  retrying(() => writeSync(SQLITE_PIPE, `${JSON.stringify(what)}\n`));
  for (;;) {
    const end = heard.indexOf('\n');
    if (end !== -1) {
      const word = heard.slice(0, end);
      heard = heard.slice(end + 1);
      return word as ToSqlite;
    }
    const length = retrying(() => readSync(SQLITE_PIPE, bytes));
    // The verifier has ended.
    if (length === 0) process.exit(0);
    heard += bytes.toString('latin1', 0, length);
  }
}

/** On some systems the pipe does not block. */
function retrying<R>(attempt: () => R): R {
  for (;;) {
    try {
      return attempt();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
      Atomics.wait(never, 0, 0, 1);
    }
  }
}
