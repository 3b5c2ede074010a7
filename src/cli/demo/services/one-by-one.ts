import type { Delivery } from '../../../ports/delivery.ts';
import type { Lane } from '../../../ports/source.ts';
import type { Payment } from '../payment.ts';
import { openWallet, type Wallet } from '../wallet.ts';
import type { Service, Surroundings } from './service.ts';

const POSITIONS = { load: async () => undefined, save: async () => undefined };

/** What a hand-written service does with one payment. */
export type Handle = (wallet: Wallet, payment: Payment, reach: Surroundings['reach']) => Promise<void>;

/** At-least-once, as most consumers have it: handle a message, and only then acknowledge it. */
export function oneByOne(handle: Handle): Service {
  return async around => {
    const { source, stopped, file, reach } = around;
    const wallet = openWallet(file);
    const lanes: Promise<void>[] = [];
    for await (const lane of source.receive({ signal: stopped, consumer: 'wallet', positions: POSITIONS })) {
      lanes.push(consumeLane(around, lane, payment => handle(wallet, payment, reach)));
    }
    await Promise.all(lanes);
  };
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
