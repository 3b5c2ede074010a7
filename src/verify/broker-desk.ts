import type { Held } from './gate.ts';
import type { Asked } from './hosts/host.ts';
import type { Copy, Mailbox } from './mailbox.ts';
import type { TraceEvent } from './trace.ts';
import type { Row } from './world.ts';

/** Who is asked for what became of a copy. */
interface Receiver {
  readonly who: number;
  copy: Copy | undefined;
}

/** What consumers ask the broker, by hand or by how their handlers end, as requests that are held like any other. */
export class BrokerDesk {
  /** What handlers have published. */
  readonly published: Row[] = [];
  /** Handlers that have failed since one ended without an error. */
  failures = 0;
  lastError = '';
  readonly #mailbox: Mailbox;
  readonly #manualAck: boolean;
  readonly #say: (event: TraceEvent) => void;

  constructor(mailbox: Mailbox, manualAck: boolean, say: (event: TraceEvent) => void) {
    this.#mailbox = mailbox;
    this.#manualAck = manualAck;
    this.#say = say;
  }

  held(slot: Receiver, copy: Copy, asked: Asked): Held {
    const request = asked.by === 'hand' ? asked.what.kind : asked.error === undefined ? 'ack' : 'nack';
    const manualAck = this.#manualAck;
    let sent = false;
    const end = () => {
      if (slot.copy === copy) slot.copy = undefined;
      // Neither acked nor refused: the broker notices, some time.
      if (manualAck && asked.by === 'end' && this.#mailbox.isOut(copy)) {
        // Whatever had failed before it: this one did not.
        this.failures = 0;
        this.#mailbox.requeue(copy, 'it was never acked', { to: slot.who });
      }
    };
    const text = asked.by === 'hand' && request === 'publish' ? `publish ${JSON.stringify(asked.what.value)}` : request;
    return {
      place: 'broker',
      connection: 0,
      text,
      quiet: request === 'nack' || request === 'extend' || (manualAck && asked.by === 'end'),
      gone: false,
      send: async () => {
        sent = true;
        if (request === 'ack' && !(manualAck && asked.by === 'end')) this.#mailbox.ack(copy);
        if (request === 'nack') {
          this.failures++;
          this.lastError = asked.by === 'end' ? asked.error! : 'nack';
          this.#mailbox.requeue(copy, 'the handler failed', { to: slot.who });
          this.#say({
            event: 'step',
            who: slot.who,
            place: 'broker',
            connection: 0,
            text: `nack (${this.lastError})`,
            result: '',
            failed: false,
            fault: undefined,
            waited: false,
            paused: false,
          });
        }
        if (asked.by === 'hand' && request === 'publish') this.published.push(rowOf(asked.what.value));
        return { text: '', failed: false };
      },
      answer: () => {
        if (asked.by === 'end') end();
        asked.answer();
      },
      cut: async () => {
        if (asked.by === 'hand') asked.answer(sent ? undefined : 'the connection to the broker was lost');
        else asked.answer();
      },
      abandon: () => undefined,
      land: async () => ({ text: '', failed: false }),
      drop: async () => undefined,
    };
  }
}

function rowOf(value: unknown): Row {
  return { value: JSON.stringify(value) ?? null };
}
