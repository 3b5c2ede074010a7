import { NevertwiceError } from '../../errors.ts';
import type { Sql } from '../../ports/sql.ts';
import { FailedStatement } from '../sql/failed-statement.ts';
import type { TransactionGuard } from '../sql/guard.ts';
import { statementKinds } from '../sql/statements.ts';
import { templateText } from '../sql/template.ts';
import type { Connection } from './connection.ts';
import { bindAll } from './values.ts';

/** The `sql` of one transaction. Statements run at the call, so one whose `await` was forgotten is in the commit. */
export class SqlTag {
  readonly #guard: TransactionGuard;
  readonly #connection: Connection;
  readonly #check: () => void;
  readonly #failed: FailedStatement[] = [];

  /** `check` runs before each statement and throws when the transaction is no longer there. */
  constructor(connection: Connection, guard: TransactionGuard, check: () => void) {
    this.#connection = connection;
    this.#guard = guard;
    this.#check = check;
  }

  readonly sql: Sql = <Row>(strings: TemplateStringsArray, ...values: unknown[]): Promise<readonly Row[]> => {
    try {
      const { text } = templateText(strings, 'positional');
      return Promise.resolve(this.#run(text, values) as Row[]);
    } catch (error) {
      if (this.#guard.isClosed) return Promise.reject(error);
      const failed = new FailedStatement(error);
      this.#failed.push(failed);
      return failed;
    }
  };

  #run(text: string, values: readonly unknown[]): Record<string, unknown>[] {
    return this.#guard.run(text, () => {
      this.#check();
      // Two of the clients would run the first and drop the rest without a word.
      if (statementKinds(text).length > 1) {
        throw new NevertwiceError(
          'NT_CONFIG',
          `sql: "${text.slice(0, 60)}" holds several statements; send one at a time`,
        );
      }
      return this.#connection.query(text, bindAll(values, text));
    });
  }

  /** Throws when a statement failed and its promise was never awaited: its effect is missing, and nobody knows. */
  refuseUnseenFailures(): void {
    const unseen = this.#failed.find(failed => !failed.seen);
    if (unseen === undefined) return;
    throw new NevertwiceError(
      'NT_TX_ABORTED',
      'a statement failed and its promise was never awaited, so everything was rolled back; await every statement',
      { cause: unseen.error },
    );
  }
}
