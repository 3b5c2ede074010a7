import { describeError, isNevertwiceError, NevertwiceError } from '../../../../errors.ts';

/** What no restart will change, by the broker's word. */
const REFUSED: ReadonlySet<unknown> = new Set([
  'GROUP_AUTHORIZATION_FAILED',
  'TOPIC_AUTHORIZATION_FAILED',
  'CLUSTER_AUTHORIZATION_FAILED',
  'SASL_AUTHENTICATION_FAILED',
]);

export function isRefused(error: unknown): boolean {
  const { type, name, cause } = (error ?? {}) as { type?: unknown; name?: unknown; cause?: unknown };
  if (isNevertwiceError(error)) return isRefused(cause);
  return REFUSED.has(type) || name === 'KafkaJSSASLAuthenticationError';
}

export function startError(error: unknown, topics: readonly string[]): NevertwiceError {
  if (isNevertwiceError(error)) return error;
  const { type } = (error ?? {}) as { type?: unknown };
  if (isRefused(error)) {
    return new NevertwiceError('NT_CONFIG', `Kafka refuses this client: ${describeError(error)}`, { cause: error });
  }
  if (type === 'UNKNOWN_TOPIC_OR_PARTITION') {
    return new NevertwiceError(
      'NT_CONFIG',
      `one of the topics ${topics.join(', ')} does not exist on this broker; create it or correct its name`,
      { cause: error },
    );
  }
  return new NevertwiceError('NT_SOURCE_DOWN', `cannot join on Kafka: ${describeError(error)}`, { cause: error });
}
