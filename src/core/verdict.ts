/** What became of one delivery. */
export type Verdict =
  | { readonly verdict: 'processed'; readonly result: unknown }
  | {
      readonly verdict: 'duplicate';
      readonly cause: DuplicateCause;
      readonly at: Date | undefined;
      readonly result?: unknown;
    }
  | { readonly verdict: 'conflict'; readonly stored: string; readonly offered: string; readonly deadLettered: boolean }
  | { readonly verdict: 'dead-lettered'; readonly kind: string; readonly reason: string }
  /** Of a type nobody handles, and the consumer chose to ignore those. */
  | { readonly verdict: 'ignored' }
  | { readonly verdict: 'retry-later'; readonly error: unknown; readonly delayMs: number }
  | { readonly verdict: 'busy' }
  /** Not handled, because the consumer stopped or the lane was taken away. */
  | { readonly verdict: 'stopped' };

/**
 * - `completed`: done before this delivery arrived.
 * - `in-batch`: another copy stood in the same batch.
 * - `commit-unknown`: our own commit's reply was lost, and claiming again found the id done.
 */
export type DuplicateCause = 'completed' | 'in-batch' | 'commit-unknown';

/** True exactly when telling the source to forget the delivery loses nothing. */
export function mayAck(verdict: Verdict | undefined): boolean {
  switch (verdict?.verdict) {
    case 'processed':
    case 'duplicate':
    case 'conflict':
    case 'dead-lettered':
    case 'ignored':
      return true;
    default:
      return false;
  }
}
