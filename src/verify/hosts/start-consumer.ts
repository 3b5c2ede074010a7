import type { Consumer } from '../../create-consumer.ts';
import { type Clock, systemClock } from '../../ports/clock.ts';
import type { Source } from '../../ports/source.ts';
import { type DeliveryResult, deliveryFrom, type TestMessage } from '../../testing/test-consumer.ts';
import { TestSource } from '../../testing/test-source.ts';
import { storeFor } from './store-for.ts';

/** Waits that the library chooses itself (between tries, probes and looks) show nothing but themselves. */
const hasty: Clock = {
  ...systemClock,
  sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 1), signal),
  random: () => 0.5,
};

/** Runs a consumer of this library until its process ends. Resolves when its store is open: what follows are its deliveries. */
export async function startConsumer(consumer: Consumer): Promise<(message: object) => Promise<DeliveryResult>> {
  const inner = new TestSource();
  const started = Promise.withResolvers<void>();
  const source: Source = {
    name: inner.name,
    capabilities: inner.capabilities,
    receive: options => {
      started.resolve();
      return inner.receive(options);
    },
  };
  const store = consumer.store === undefined ? await storeFor() : undefined;
  const running = consumer.run({ source, clock: hasty, ...(store === undefined ? {} : { store }) });
  await Promise.race([started.promise, running]);
  let deliveries = 0;
  return message => {
    const settled = inner.deliver(deliveryFrom(message as TestMessage, ++deliveries)) as Promise<DeliveryResult>;
    return Promise.race([settled, running.then((): DeliveryResult => 'not acked')]);
  };
}
