import { describeError, isNevertwiceError, NevertwiceError } from '../../../../errors.ts';

// librdkafka's numbers: its own are negative, the broker's positive.
const UNKNOWN_TOPIC: ReadonlySet<unknown> = new Set([3, -188, -190]);
/** What no other try will change, by the broker's word. */
const REFUSED: ReadonlySet<unknown> = new Set([
  -169, // authentication failed
  29, // topic authorization
  30, // group authorization
  31, // cluster authorization
  33, // SASL mechanism not supported
  58, // SASL authentication failed
]);
const FATAL = -150;

/**
 * Of an error event the binding passes on librdkafka's text for the number and drops the number. They are constants of the
 * library; should one change, a refusal counts as a broker that cannot be reached.
 */
const NUMBERS: ReadonlyMap<unknown, number> = new Map([
  ['authentication failure', -169],
  ['fatal error', FATAL],
]);

function codeOf(error: unknown): unknown {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
  return code === -1 ? NUMBERS.get(message) : code;
}

/** True when the member will never get any further: refused, or given up by the client. */
export function isFinal(error: unknown): boolean {
  const code = codeOf(error);
  return REFUSED.has(code) || code === FATAL || (error as { isFatal?: unknown } | undefined)?.isFatal === true;
}

/** What the client throws before it has tried to connect. */
export function settingsError(error: unknown): NevertwiceError {
  return new NevertwiceError('NT_CONFIG', `the client does not take its settings: ${describeError(error)}`, {
    cause: error,
  });
}

export function startError(error: unknown, topics: readonly string[]): NevertwiceError {
  if (isNevertwiceError(error)) return error;
  const code = codeOf(error);
  if (REFUSED.has(code)) {
    return new NevertwiceError('NT_CONFIG', `Kafka refuses this client: ${describeError(error)}`, { cause: error });
  }
  if (UNKNOWN_TOPIC.has(code)) {
    return new NevertwiceError(
      'NT_CONFIG',
      `one of the topics ${topics.join(', ')} does not exist on this broker; create it or correct its name`,
      { cause: error },
    );
  }
  return new NevertwiceError('NT_SOURCE_DOWN', `cannot join on Kafka: ${describeError(error)}`, { cause: error });
}
