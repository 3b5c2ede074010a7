import { failureCode } from '../../../core/failures.ts';
import { NevertwiceError } from '../../../errors.ts';
import type { Behind, Row } from '../driver.ts';
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
 * COMMIT, and in one message with it the statements that have to go last: were they sent apart, an owner that hangs between
 * them would hold the lane's row, or an outbox key's lock, against everybody. Resolves with the reply to COMMIT; the
 * transaction has ended then.
 */
export async function commitOn(
  client: PgClientLike,
  behind: readonly Behind[],
  prepareAs: number | undefined,
): Promise<{ command?: string }> {
  const commit = () => inTurn(client, () => client.query('COMMIT'));
  if (behind.length === 0) return commit();
  if (client.pipeline === true) {
    corkUntilNextTick(client);
    const sent = behind.map(({ statement }) => queryOn(client, statement, prepareAs));
    const [statements, committed] = await Promise.all([Promise.allSettled(sent), settled(commit())]);
    // Where the server has refused a statement, COMMIT was a ROLLBACK, whether or not its reply still came. A socket that
    // broke fails all in the same way, and says nothing of any. The first to fail is the cause, the rest only follow.
    const failed = statements.find(statement => statement.status === 'rejected');
    if (failed !== undefined) throw isServers(failed.reason) ? new NotCommitted(failed.reason) : failed.reason;
    if (committed.status === 'rejected') throw committed.reason;
    for (const [i, { seen }] of behind.entries())
      seen?.((statements[i] as PromiseFulfilledResult<readonly Row[]>).value);
    return committed.value;
  }
  const texts = behind.map(({ statement }) => inlined(statement));
  try {
    if (texts.some(text => text === undefined)) {
      for (const { statement, seen } of behind) {
        const rows = await queryOn(client, statement, prepareAs);
        seen?.(rows);
      }
    } else {
      const replies: unknown = await inTurn(client, () => client.query([...texts, 'COMMIT'].join(';\n')));
      for (const [i, { seen }] of behind.entries()) seen?.((replies as readonly { rows: Row[] }[])[i]!.rows);
      return (replies as readonly { command?: string }[]).at(-1)!;
    }
  } catch (error) {
    if (!isServers(error)) throw error;
    await inTurn(client, () => client.query('ROLLBACK'));
    throw new NotCommitted(error);
  }
  return commit();
}

async function settled<R>(promise: Promise<R>): Promise<PromiseSettledResult<R>> {
  const [outcome] = await Promise.allSettled([promise]);
  return outcome;
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
