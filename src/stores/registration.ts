import { NevertwiceError } from '../errors.ts';
import type { ConsumerRegistration } from '../ports/store.ts';

/** @throws NT_CONFIG for a consumer without a name. */
export function assertNamed({ name }: ConsumerRegistration): void {
  if (typeof name === 'string' && name.trim() !== '') return;
  throw new NevertwiceError('NT_CONFIG', 'the consumer has no name; it scopes deduplication and must not change later');
}
