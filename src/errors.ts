/**
 * The closed set of errors that this library raises. A caller branches on `code` and `retryable`, never on the text.
 *
 * | code | what happened | retryable |
 * |---|---|---|
 * | NT_BUSY | a live owner is working on the same message; do not ack | yes |
 * | NT_STORE_DOWN | the store cannot be reached or gave no connection; do not ack | yes |
 * | NT_UNAVAILABLE | a handler threw `Unavailable`: something it depends on is down; do not ack | yes |
 * | NT_SOURCE_DOWN | the source, or a relay's destination, cannot be reached | yes |
 * | NT_LANE_LOST | another process has taken the lane over; nothing of the batch was committed | yes |
 * | NT_LOG_CHANGED | the log is not the one that the position was kept for, or has lost what comes next | no |
 * | NT_OFFSET_RESET | somebody has set the group's offset beside the consumer | no |
 * | NT_LEASE_LOST | the lease ran out before the work was completed; do not ack | yes |
 * | NT_COMMIT_UNKNOWN | the server never said whether the commit landed; claiming again finds out | yes |
 * | NT_HANDLER_TIMEOUT | the handler outlived `timeoutMs`; its transaction was rolled back | yes |
 * | NT_TX_ABORTED | a statement failed, the handler went on, and the server refused the commit | yes |
 * | NT_STOPPED | the consumer is stopping; the message was not handled | yes |
 * | NT_BATCH | some messages of a batch may not be acked; `outcomes` says which | yes |
 * | NT_BAD_ID | the message has no usable id | no |
 * | NT_BAD_MESSAGE | the body cannot be decoded or is invalid | no |
 * | NT_REJECTED | the handler threw `Reject` | no |
 * | NT_TX_CLOSED | the handle was used after its transaction had ended | no |
 * | NT_TX_FORBIDDEN | the handler sent a statement that would end or split the transaction | no |
 * | NT_CONFIG | an option is missing or wrong | no |
 * | NT_SCHEMA | the tables in the store do not fit this version | no |
 * | NT_OUTBOX_CLASH | a message of this id waits in the outbox already, and `onClash` is `refuse` | no |
 */
export type ErrorCode =
  | 'NT_BUSY'
  | 'NT_STORE_DOWN'
  | 'NT_UNAVAILABLE'
  | 'NT_SOURCE_DOWN'
  | 'NT_LANE_LOST'
  | 'NT_LOG_CHANGED'
  | 'NT_OFFSET_RESET'
  | 'NT_LEASE_LOST'
  | 'NT_COMMIT_UNKNOWN'
  | 'NT_HANDLER_TIMEOUT'
  | 'NT_TX_ABORTED'
  | 'NT_STOPPED'
  | 'NT_BATCH'
  | 'NT_BAD_ID'
  | 'NT_BAD_MESSAGE'
  | 'NT_REJECTED'
  | 'NT_TX_CLOSED'
  | 'NT_TX_FORBIDDEN'
  | 'NT_CONFIG'
  | 'NT_SCHEMA'
  | 'NT_OUTBOX_CLASH';

const RETRYABLE: ReadonlySet<ErrorCode> = new Set([
  'NT_BUSY',
  'NT_STORE_DOWN',
  'NT_UNAVAILABLE',
  'NT_SOURCE_DOWN',
  'NT_LANE_LOST',
  'NT_LEASE_LOST',
  'NT_COMMIT_UNKNOWN',
  'NT_HANDLER_TIMEOUT',
  'NT_TX_ABORTED',
  'NT_STOPPED',
  'NT_BATCH',
]);

// Two copies of the package in one process (a hoisted and a nested one) must still recognise each other's errors, so
// the check is a registered symbol and not `instanceof`.
const BRAND = Symbol.for('nevertwice.error');

export class NevertwiceError extends Error {
  readonly code: ErrorCode;
  /** True when the same delivery can succeed later without anybody changing anything. */
  readonly retryable: boolean;

  constructor(code: ErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'NevertwiceError';
    this.code = code;
    this.retryable = RETRYABLE.has(code);
    Object.defineProperty(this, BRAND, { value: true });
  }
}

/** True for an error of this library, also one that another copy of the package made; with `code`, only for that code. */
export function isNevertwiceError(error: unknown, code?: ErrorCode): error is NevertwiceError {
  if (typeof error !== 'object' || error === null || !(BRAND in error)) return false;
  return code === undefined || (error as { code?: unknown }).code === code;
}

/** Thrown by a handler: this message can never succeed. It becomes a dead letter at once, without further tries. */
export class Reject extends NevertwiceError {
  readonly reason: string;

  constructor(reason: string, options?: { cause?: unknown }) {
    super('NT_REJECTED', reason, options);
    this.name = 'Reject';
    this.reason = reason;
  }
}

/**
 * Thrown by a handler: something it depends on is down. The consumer pauses with all its lanes and tries again, with a growing
 * back-off or after `retryAfterMs` (at most an hour), whichever is longer; no attempt is spent, and nothing is dead-lettered.
 */
export class Unavailable extends NevertwiceError {
  /** When it may be back, in milliseconds from now, where the downstream said so (`Retry-After`). */
  readonly retryAfterMs: number | undefined;

  constructor(what: string, options: { cause?: unknown; readonly retryAfterMs?: number } = {}) {
    const { retryAfterMs, ...rest } = options;
    super('NT_UNAVAILABLE', `${what} is unavailable`, rest);
    this.name = 'Unavailable';
    this.retryAfterMs = Number.isFinite(retryAfterMs) ? Math.max(0, retryAfterMs!) : undefined;
  }
}

/** True where it says nothing about the message: the store is down, or what the handler depends on. */
export function isOutage(error: unknown): error is NevertwiceError {
  return isNevertwiceError(error, 'NT_STORE_DOWN') || isNevertwiceError(error, 'NT_UNAVAILABLE');
}

/** One line for a person: the message of the error, and its code when it has one. */
export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return `the handler threw ${error === undefined ? 'undefined' : typeof error}`;
  const code = (error as { code?: unknown }).code;
  const text = error.message.split('\n', 1)[0] || error.name;
  return typeof code === 'string' && !text.includes(code) ? `${code}: ${text}` : text;
}
