import type { Delivery } from '../../../ports/delivery.ts';
import type { Lane } from '../../../ports/source.ts';
import type { Payment } from '../payment.ts';
import type { Surroundings } from './service.ts';

const POSITIONS = { load: async () => undefined, save: async () => undefined };

/** At-least-once, as most consumers have it: handle a message, and only then acknowledge it. */
export async function consumeOneByOne(
  around: Surroundings,
  handle: (payment: Payment) => Promise<void>,
): Promise<void> {
  const { source, stopped } = around;
  const lanes: Promise<void>[] = [];
  for await (const lane of source.receive({ signal: stopped, consumer: 'wallet', positions: POSITIONS })) {
    lanes.push(consumeLane(around, lane, handle));
  }
  await Promise.all(lanes);
}

async function consumeLane(
  around: Surroundings,
  lane: Lane,
  handle: (payment: Payment) => Promise<void>,
): Promise<void> {
  const { stopped, reach } = around;
  for (let [delivery] = await next(); delivery !== undefined; [delivery] = await next()) {
    await reach('identify', 'after');
    await handle(paymentIn(delivery));
    await reach('settle', 'before');
    await lane.settle([{ delivery, settle: 'ack' }]);
    await reach('settle', 'after');
  }

  function next(): Promise<readonly Delivery[]> {
    return lane.receive(1, stopped);
  }
}

function paymentIn(delivery: Delivery): Payment {
  return delivery.body?.value as Payment;
}
