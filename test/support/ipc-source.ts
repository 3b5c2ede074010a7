import type { ChildProcess } from 'node:child_process';
import { headersFrom, listHeaders } from '../../src/core/headers.ts';
import type { Delivery, Lane, Settlement, Source, SourceCapabilities } from '../../src/index.ts';

// A source of this process for consumers in child processes. The broker lives on when a child is killed, and takes back
// what the child had not settled, as a real one does when a connection closes. Children are started with
// `serialization: 'advanced'`, so that bytes, dates and offsets survive the way.

/** What a delivery is on the wire: its headers as pairs, since functions cannot travel. */
type Sent = Omit<Delivery, 'headers'> & { readonly headers: readonly (readonly [string, string])[] };

/** Deliveries are settled by their ticket: the child's copy is another object than the broker's. */
interface Settled {
  readonly ticket: number;
  readonly settle: 'ack' | 'retry-later';
  readonly delayMs: number;
}

type FromChild =
  | { readonly ipc: 'join'; readonly consumer: string }
  | { readonly ipc: 'receive'; readonly call: number; readonly lane: number; readonly max: number }
  | { readonly ipc: 'cancel'; readonly call: number }
  | { readonly ipc: 'settle'; readonly call: number; readonly lane: number; readonly settlements: readonly Settled[] }
  | { readonly ipc: 'leave' };

type ToChild =
  | { readonly ipc: 'lane'; readonly lane: number; readonly id: string }
  | { readonly ipc: 'revoked'; readonly lane: number }
  | { readonly ipc: 'received'; readonly call: number; readonly deliveries: readonly (readonly [number, Sent])[] }
  | { readonly ipc: 'settled'; readonly call: number }
  | { readonly ipc: 'no-more-lanes' };

/**
 * The parent's end: a `join` of the child becomes a member of `source`, until the child leaves or ends. `onReceived`
 * hears how many deliveries were handed over.
 */
export function serveSource(child: ChildProcess, source: Source, onReceived: (count: number) => void): void {
  const lanes: Lane[] = [];
  const calls = new Map<number, AbortController>();
  const tickets = new Map<number, Delivery>();
  const gone = new AbortController();
  let membership: AsyncIterator<Lane> | undefined;
  let lastTicket = 0;
  const tell = (message: ToChild) => {
    // A child that was just killed cannot be told anything any more.
    if (child.connected) child.send(message, () => undefined);
  };

  async function join(consumer: string): Promise<void> {
    const positions = { load: async () => undefined, save: async () => undefined };
    membership = source.receive({ signal: gone.signal, consumer, positions })[Symbol.asyncIterator]();
    for (let next = await membership.next(); next.done !== true; next = await membership.next()) {
      const lane = next.value;
      const index = lanes.push(lane) - 1;
      tell({ ipc: 'lane', lane: index, id: lane.id });
      lane.revoked.addEventListener('abort', () => tell({ ipc: 'revoked', lane: index }), { once: true });
    }
    tell({ ipc: 'no-more-lanes' });
  }

  async function receive(call: number, lane: number, max: number): Promise<void> {
    const cancel = new AbortController();
    calls.set(call, cancel);
    const deliveries = await lanes[lane]!.receive(max, AbortSignal.any([cancel.signal, gone.signal]));
    calls.delete(call);
    onReceived(deliveries.length);
    tell({
      ipc: 'received',
      call,
      deliveries: deliveries.map(delivery => {
        tickets.set(++lastTicket, delivery);
        return [lastTicket, { ...delivery, headers: listHeaders(delivery.headers) }];
      }),
    });
  }

  async function settle(call: number, lane: number, settlements: readonly Settled[]): Promise<void> {
    const real = settlements.map(({ ticket, settle, delayMs }): Settlement => {
      const delivery = tickets.get(ticket)!;
      tickets.delete(ticket);
      return settle === 'ack' ? { delivery, settle } : { delivery, settle, delayMs };
    });
    await lanes[lane]!.settle(real);
    tell({ ipc: 'settled', call });
  }

  async function leave(): Promise<void> {
    gone.abort();
    await membership?.return?.();
  }

  const answer = async (message: FromChild) => {
    if (message.ipc === 'join') await join(message.consumer);
    else if (message.ipc === 'receive') await receive(message.call, message.lane, message.max);
    else if (message.ipc === 'cancel') calls.get(message.call)?.abort();
    else if (message.ipc === 'settle') await settle(message.call, message.lane, message.settlements);
    else if (message.ipc === 'leave') await leave();
  };
  child.on('message', message => {
    answer(message as FromChild).catch(error => child.emit('error', error));
  });
  child.once('disconnect', () => void leave());
}

/** The child's end of `serveSource`. */
export function ipcSource(capabilities: SourceCapabilities): Source {
  return {
    name: 'ipc',
    capabilities,
    receive: ({ signal, consumer }) => ({ [Symbol.asyncIterator]: () => membership(signal, consumer) }),
  };
}

function membership(signal: AbortSignal, consumer: string): AsyncIterator<Lane> {
  const lanes = new Map<number, AbortController>();
  const arrived: Lane[] = [];
  const answers = new Map<number, (message: ToChild) => void>();
  let wake: () => void = () => undefined;
  let ended = false;
  let lastCall = 0;

  const listen = (message: ToChild) => {
    if (message.ipc === 'lane') arrived.push(laneOf(message.lane, message.id));
    else if (message.ipc === 'no-more-lanes') ended = true;
    else if (message.ipc === 'revoked') lanes.get(message.lane)?.abort();
    else answers.get(message.call)?.(message);
    wake();
  };

  function ask(message: (call: number) => FromChild, onCall: (call: number) => void = () => undefined) {
    const call = ++lastCall;
    return new Promise<ToChild>(resolve => {
      answers.set(call, answer => {
        answers.delete(call);
        resolve(answer);
      });
      send(message(call));
      onCall(call);
    });
  }

  function laneOf(lane: number, id: string): Lane {
    const revocation = new AbortController();
    lanes.set(lane, revocation);
    const tickets = new WeakMap<Delivery, number>();
    return {
      id,
      revoked: revocation.signal,
      async receive(max, stopping) {
        if (stopping.aborted) return [];
        let stop: () => void = () => undefined;
        const answer = await ask(
          call => ({ ipc: 'receive', call, lane, max }),
          call => {
            stop = () => send({ ipc: 'cancel', call });
            stopping.addEventListener('abort', stop, { once: true });
          },
        );
        stopping.removeEventListener('abort', stop);
        if (answer.ipc !== 'received') throw new Error(`the parent answered ${answer.ipc}`);
        return answer.deliveries.map(([ticket, sent]) => {
          const delivery = { ...sent, headers: headersFrom(sent.headers) };
          tickets.set(delivery, ticket);
          return delivery;
        });
      },
      async settle(settlements) {
        const sent = settlements.map(one => ({
          ticket: tickets.get(one.delivery)!,
          settle: one.settle,
          delayMs: one.settle === 'ack' ? 0 : one.delayMs,
        }));
        await ask(call => ({ ipc: 'settle', call, lane, settlements: sent }));
      },
    };
  }

  let joined = false;
  return {
    async next() {
      if (!joined && !signal.aborted) {
        joined = true;
        process.on('message', listen as (message: unknown) => void);
        send({ ipc: 'join', consumer });
      }
      while (!signal.aborted) {
        const lane = arrived.shift();
        if (lane !== undefined) return { done: false, value: lane };
        if (ended) break;
        await new Promise<void>(resolve => {
          wake = resolve;
          signal.addEventListener('abort', () => resolve(), { once: true });
        });
      }
      return { done: true, value: undefined };
    },
    async return() {
      process.removeListener('message', listen as (message: unknown) => void);
      if (process.connected) send({ ipc: 'leave' });
      return { done: true, value: undefined };
    },
  };
}

function send(message: FromChild): void {
  process.send?.(message);
}
