import { classifyFailure } from '../core/failures.ts';
import { isNevertwiceError } from '../errors.ts';
import type { Path, Scope } from '../path.ts';

/**
 * Moves the position past what was decided without a transaction: copies inside a batch, messages of an ignored type.
 * So the source is never told more than the position says, and its offset does not go back at the next assignment.
 */
export async function catchUp(path: Path, { position }: Scope): Promise<void> {
  if (position === undefined || path.store.promise !== 'exactly-once') return;
  try {
    await position.settleDoubt();
    const move = position.move([]);
    if (move.to === move.from) return;
    const options = { budgetMs: path.policy.timeoutMs, overlap: false };
    await path.store.inbox.transaction([], options, unit => unit.advance(move));
    position.moved(move);
  } catch (error) {
    if (isNevertwiceError(error, 'NT_COMMIT_UNKNOWN')) position.doubt();
    // What the database refuses now the next batch takes along.
    else if (isNevertwiceError(error) || classifyFailure(error) === undefined) throw error;
  }
}
