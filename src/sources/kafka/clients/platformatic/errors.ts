import { describeError, isNevertwiceError, NevertwiceError } from '../../../../errors.ts';

/** What no further try will change, by the broker's word. */
const REFUSED: ReadonlySet<unknown> = new Set([
  'GROUP_AUTHORIZATION_FAILED',
  'TOPIC_AUTHORIZATION_FAILED',
  'CLUSTER_AUTHORIZATION_FAILED',
  'SASL_AUTHENTICATION_FAILED',
  'UNSUPPORTED_SASL_MECHANISM',
]);

interface ClientError {
  readonly code?: unknown;
  readonly apiCode?: unknown;
  readonly apiId?: unknown;
  readonly errors?: readonly unknown[];
  readonly cause?: unknown;
}

/** The error and all that it was made from: the client wraps the broker's word several times. */
function within(error: unknown): ClientError[] {
  if (typeof error !== 'object' || error === null) return [];
  const { errors = [], cause } = error as ClientError;
  return [error, ...[...errors, cause].flatMap(within)];
}

/** The broker's words as numbers, in the order of their arrival. */
export function numbersIn(error: unknown): readonly unknown[] {
  return within(error).flatMap(({ apiCode }) => (apiCode === undefined ? [] : [apiCode]));
}

export function isRefused(error: unknown): boolean {
  return within(error).some(({ apiId }) => REFUSED.has(apiId));
}

/** Records are compressed in a way that the client cannot undo. */
export function isUnreadable(error: unknown): boolean {
  return within(error).some(({ code }) => code === 'PLT_KFK_UNSUPPORTED_COMPRESSION');
}

/** What `metadata` says of a topic that is not there: it keeps the code of its own, and not the broker's. */
export function isMissing(error: unknown): boolean {
  return (error as ClientError | undefined)?.code === 'PLT_KFK_USER';
}

export function startError(error: unknown): NevertwiceError {
  if (isNevertwiceError(error)) return error;
  // What it says itself is how often it tried; why it failed is at the bottom.
  const reason = describeError(within(error).find(({ errors }) => errors === undefined) ?? error);
  if (isRefused(error))
    return new NevertwiceError('NT_CONFIG', `Kafka refuses this client: ${reason}`, { cause: error });
  if (isUnreadable(error)) {
    return new NevertwiceError('NT_CONFIG', `the client cannot read what is in a topic: ${reason}`, { cause: error });
  }
  return new NevertwiceError('NT_SOURCE_DOWN', `cannot join on Kafka: ${reason}`, { cause: error });
}
