import { Nesting } from '../sql/nesting.ts';
import type { OpenTransaction } from './driver.ts';

/** What handlers undo a part of their transaction with. */
export class Savepoints {
  readonly #open: OpenTransaction<unknown>;
  readonly #nesting = new Nesting();
  #made = 0;

  constructor(open: OpenTransaction<unknown>) {
    this.#open = open;
  }

  /** Runs `work`; when it throws, what was written since is undone and the error goes on. */
  run<R>(work: () => Promise<R>): Promise<R> {
    return this.#nesting.deeper(async () => {
      const { guard, savepoint } = this.#open;
      const name = `nt_savepoint_${++this.#made}`;
      if (savepoint === undefined) {
        return between(name, work, text => guard.track(text, () => this.#open.query({ text, name: '', values: [] })));
      }
      guard.admit(`SAVEPOINT ${name}`);
      try {
        return await savepoint(work);
      } catch (error) {
        guard.undone();
        throw error;
      }
    });
  }
}

/**
 * Runs `work` so that nothing of it is left when it throws, in a transaction that may go on: a caller who catches the
 * error and commits keeps neither the claim nor its effect. Not one of the handler's savepoints, and not counted as one.
 */
export function undoable<R>(open: OpenTransaction<unknown>, work: () => Promise<R>): Promise<R> {
  if (open.savepoint !== undefined) return open.savepoint(work);
  return between('nt_within', work, text => open.query({ text, name: '', values: [] }));
}

async function between<R>(name: string, work: () => Promise<R>, send: (text: string) => Promise<unknown>): Promise<R> {
  await send(`SAVEPOINT ${name}`);
  let result: R;
  try {
    result = await work();
  } catch (error) {
    await send(`ROLLBACK TO SAVEPOINT ${name}`);
    await send(`RELEASE SAVEPOINT ${name}`);
    throw error;
  }
  await send(`RELEASE SAVEPOINT ${name}`);
  return result;
}
