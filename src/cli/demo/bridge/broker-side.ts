import type { ChildProcess } from 'node:child_process';
import { listHeaders } from '../../../core/headers.ts';
import type { Delivery } from '../../../ports/delivery.ts';
import type { Lane, Settlement, Source } from '../../../ports/source.ts';
import type { FromBroker, FromService, Settled, Ticket } from './wire.ts';

export interface Traffic {
  onReceived(deliveries: readonly Delivery[]): void;
  onSettled(count: number): void;
}

/**
 * Makes a child process a member of `source` until it ends; what it had not settled goes back to the broker then, as when
 * a real one notices that a connection is gone.
 */
export function serve(child: ChildProcess, source: Source, traffic: Traffic): void {
  const lanes: Lane[] = [];
  const calls = new Map<number, AbortController>();
  const tickets = new Map<number, Delivery>();
  const gone = new AbortController();
  let given = 0;
  let membership: AsyncIterator<Lane> | undefined;

  const tell = (message: FromBroker) => {
    // Who was killed this very moment cannot be told any more, and need not be.
    if (child.connected) child.send(message, () => undefined);
  };

  async function join(consumer: string): Promise<void> {
    const positions = { load: async () => undefined, save: async () => undefined };
    membership = source.receive({ signal: gone.signal, consumer, positions })[Symbol.asyncIterator]();
    for (let next = await membership.next(); next.done !== true; next = await membership.next()) {
      const { id, revoked } = next.value;
      const lane = lanes.push(next.value) - 1;
      tell({ op: 'lane', lane, id });
      revoked.addEventListener('abort', () => tell({ op: 'revoked', lane }), { once: true });
    }
  }

  async function receive(call: number, lane: number, max: number): Promise<void> {
    const cancel = new AbortController();
    calls.set(call, cancel);
    const deliveries = await lanes[lane]!.receive(max, AbortSignal.any([cancel.signal, gone.signal]));
    calls.delete(call);
    if (deliveries.length > 0) traffic.onReceived(deliveries);
    tell({ op: 'received', call, tickets: deliveries.map(ticketFor) });
  }

  function ticketFor(delivery: Delivery): Ticket {
    const ticket = ++given;
    tickets.set(ticket, delivery);
    const { headers, ...rest } = delivery;
    return { ticket, delivery: rest, headers: listHeaders(headers) };
  }

  async function settle(call: number, lane: number, settled: readonly Settled[]): Promise<void> {
    await lanes[lane]!.settle(settled.map(settlementOf));
    traffic.onSettled(settled.length);
    tell({ op: 'settled', call });
  }

  function settlementOf({ ticket, delayMs }: Settled): Settlement {
    const delivery = tickets.get(ticket)!;
    tickets.delete(ticket);
    return delayMs === undefined ? { delivery, settle: 'ack' } : { delivery, settle: 'retry-later', delayMs };
  }

  async function leave(): Promise<void> {
    gone.abort();
    await membership?.return?.();
  }

  async function answer(message: FromService): Promise<void> {
    switch (message.op) {
      case 'join':
        return join(message.consumer);
      case 'receive':
        return receive(message.call, message.lane, message.max);
      case 'cancel':
        return calls.get(message.call)?.abort();
      case 'settle':
        return settle(message.call, message.lane, message.settled);
    }
  }

  const onError = (error: unknown) => child.emit('error', error);
  child.on('message', message => void answer(message as FromService).catch(onError));
  child.once('exit', () => void leave().catch(onError));
}
