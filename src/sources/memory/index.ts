import type { Source } from '../../ports/source.ts';
import { MemoryBroker, type MemoryBrokerOptions, type MemorySourceOptions } from './broker.ts';
import type { MemoryMessage } from './message.ts';

export type { MemoryBroker, MemoryBrokerOptions, MemorySourceOptions, RedeliverOptions, Sent } from './broker.ts';
export type { MemoryMessage, MemoryRecord } from './message.ts';

/**
 * A broker in this process, for tests and demos:
 *
 *     const broker = memoryBroker();
 *     broker.send({ id: 'm1', key: 'account-7', body: { amount: 500 } });
 *     await createConsumer({ name: 'wallet', source: broker.source(), store, handle }).run({ signal });
 *
 * @throws NevertwiceError NT_CONFIG for a number of partitions that is not a positive integer
 */
export function memoryBroker(options?: MemoryBrokerOptions): MemoryBroker {
  return new MemoryBroker(options);
}

/**
 * A source of these messages that ends once all of them are settled. One partition by default, so that they come in the
 * order of the list.
 *
 * @throws NevertwiceError NT_CONFIG like `MemoryBroker.send`
 */
export function memorySource(
  messages: Iterable<MemoryMessage>,
  options: MemoryBrokerOptions & Omit<MemorySourceOptions, 'finite'> = {},
): Source {
  const broker = new MemoryBroker({ partitions: 1, ...options });
  for (const message of messages) broker.send(message);
  return broker.source({ ...options, finite: true });
}
