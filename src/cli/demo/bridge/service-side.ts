import { headersFrom } from '../../../core/headers.ts';
import type { Delivery } from '../../../ports/delivery.ts';
import type { Lane, Settlement, Source } from '../../../ports/source.ts';
import { WaitList } from '../../../sources/wait-list.ts';
import type { FromBroker, FromService, Ticket } from './wire.ts';

/**
 * The broker in the parent, as a source like any other.
 *
 * @param received is waited for whenever deliveries have come, before anybody else sees them
 */
export function bridgedSource(received: (deliveries: number) => Promise<void>): {
  readonly source: Source;
  /** Aborts when the broker says that everything is done. */
  readonly stopped: AbortSignal;
} {
  const stop = new AbortController();
  const arrived: Lane[] = [];
  const revocations: AbortController[] = [];
  const calls = new Map<number, (message: FromBroker) => void>();
  const changed = new WaitList();
  let callsMade = 0;

  process.on('message', (message: FromBroker) => {
    if (message.op === 'stop') stop.abort();
    else if (message.op === 'lane') arrived.push(laneFor(message.lane, message.id));
    else if (message.op === 'revoked') revocations[message.lane]?.abort();
    else calls.get(message.call)?.(message);
    changed.wakeAll();
  });

  function ask(message: (call: number) => FromService): {
    readonly call: number;
    readonly answer: Promise<FromBroker>;
  } {
    const call = ++callsMade;
    const { promise, resolve } = Promise.withResolvers<FromBroker>();
    calls.set(call, answer => {
      calls.delete(call);
      resolve(answer);
    });
    tell(message(call));
    return { call, answer: promise };
  }

  function laneFor(lane: number, id: string): Lane {
    const revocation = new AbortController();
    revocations[lane] = revocation;
    const tickets = new WeakMap<Delivery, number>();
    return {
      id,
      revoked: revocation.signal,
      async receive(max, signal) {
        if (signal.aborted || revocation.signal.aborted) return [];
        const { call, answer } = ask(call => ({ op: 'receive', call, lane, max }));
        const cancel = () => tell({ op: 'cancel', call });
        signal.addEventListener('abort', cancel, { once: true });
        const message = await answer;
        signal.removeEventListener('abort', cancel);
        const deliveries = message.op === 'received' ? message.tickets.map(ticket => opened(ticket, tickets)) : [];
        if (deliveries.length > 0) await received(deliveries.length);
        return deliveries;
      },
      async settle(settlements) {
        const settled = settlements.map(one => ({ ticket: tickets.get(one.delivery)!, delayMs: delayOf(one) }));
        await ask(call => ({ op: 'settle', call, lane, settled })).answer;
      },
    };
  }

  const source: Source = {
    name: 'demo',
    capabilities: { retryLater: true, finite: false, readAhead: true },
    async *receive({ signal, consumer }) {
      tell({ op: 'join', consumer });
      while (!signal.aborted) {
        const lane = arrived.shift();
        if (lane === undefined) await changed.wait(signal);
        else yield lane;
      }
    },
  };
  return { source, stopped: stop.signal };
}

function opened({ ticket, delivery, headers }: Ticket, tickets: WeakMap<Delivery, number>): Delivery {
  const whole: Delivery = { ...delivery, headers: headersFrom(headers) };
  tickets.set(whole, ticket);
  return whole;
}

function delayOf(settlement: Settlement): number | undefined {
  return settlement.settle === 'ack' ? undefined : settlement.delayMs;
}

function tell(message: FromService): void {
  process.send?.(message);
}
