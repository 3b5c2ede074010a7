import { failureCode } from '../../../core/failures.ts';
import { NevertwiceError } from '../../../errors.ts';
import type { Statement } from '../statements.ts';
import { ownError } from './own-statement.ts';
import { inlined, type PgClientLike, queryOn } from './pg-connection.ts';
import { corkUntilNextTick } from './pg-handle.ts';
import { inTurn } from './turns.ts';

/** The statement that was to go with COMMIT has failed, so certainly nothing was committed. */
export class NotCommitted extends Error {
  readonly error: unknown;

  constructor(error: unknown) {
    super('the last statement before COMMIT failed');
    this.error = error;
  }
}

/**
 * COMMIT, and in one message with it the statement that has to go last: were they sent apart, an owner that hangs between
 * them would hold the lane's row against everybody. Resolves with the reply to COMMIT; the transaction has ended then.
 */
export async function commitOn(
  client: PgClientLike,
  last: Statement | undefined,
  prepareAs: number | undefined,
): Promise<{ command?: string }> {
  const commit = () => inTurn(client, () => client.query('COMMIT'));
  if (last === undefined) return commit();
  if (client.pipeline === true) {
    corkUntilNextTick(client);
    const sent = queryOn(client, last, prepareAs);
    const [statement, committed] = await Promise.allSettled([sent, commit()]);
    // Where the server has refused the statement, COMMIT was a ROLLBACK, whether or not its reply still came. A socket that
    // broke fails both in the same way, and says nothing of either.
    if (statement.status === 'rejected' && isServers(statement.reason)) throw new NotCommitted(statement.reason);
    if (statement.status === 'rejected') throw statement.reason;
    if (committed.status === 'rejected') throw committed.reason;
    return committed.value;
  }
  const text = inlined(last);
  try {
    if (text === undefined) await queryOn(client, last, prepareAs);
    else {
      const replies: unknown = await inTurn(client, () => client.query(`${text};\nCOMMIT`));
      return (replies as readonly { command?: string }[]).at(-1)!;
    }
  } catch (error) {
    if (!isServers(error)) throw error;
    await inTurn(client, () => client.query('ROLLBACK'));
    throw new NotCommitted(error);
  }
  return commit();
}

/** invalid_argument_for_width_bucket_function: the statement that moves a lane's position found no row. */
const NO_ROW = '2201G';

/** True for what the server itself has said: only its errors have a severity. */
function isServers(error: unknown): boolean {
  return typeof (error as { severity?: unknown } | null)?.severity === 'string';
}

/** What the failure of a lane's last statement means. */
export function laneError(error: unknown): unknown {
  if (failureCode(error) !== NO_ROW) return ownError(error);
  return new NevertwiceError(
    'NT_LANE_LOST',
    'another process has taken this lane over, or its position was set by hand; nothing of the batch was committed',
    { cause: error },
  );
}
