/** Why nothing can be said about a handler, in one line: what happened, and what to do. */
export class VerifyError extends Error {
  override readonly name = 'VerifyError';
}
