import { classifyFailure, failureCode } from '../../../core/failures.ts';
import { NevertwiceError } from '../../../errors.ts';

/**
 * The error of one of our own statements: what the server or the network cannot do now says nothing about the message,
 * so it must not come out as the handler's failure (a disk that is full, a primary that has become a replica).
 */
export function ownError(error: unknown): unknown {
  if (classifyFailure(error) !== 'outage') return error;
  const code = failureCode(error);
  return new NevertwiceError('NT_STORE_DOWN', `PostgreSQL cannot work now (${code}); nothing was committed`, {
    cause: error,
  });
}

/** A handler that waits for a statement on a half-open connection runs into its time limit, and that is not its fault. */
export function silentConnection(cause: unknown): NevertwiceError {
  return new NevertwiceError('NT_STORE_DOWN', 'PostgreSQL did not answer ROLLBACK; nothing was committed', { cause });
}
