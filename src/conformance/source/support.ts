import type { Delivery } from '../../ports/delivery.ts';
import type { Source, SourceCapabilities } from '../../ports/source.ts';
import type { Positions } from '../../ports/store.ts';
import type { TestFunction } from '../test-function.ts';
import { Receiver, within } from './receiver.ts';

/** What the suite sends. All messages of one call must land in one lane: they have the same key. */
export interface SuiteMessage {
  /** To be sent as the header `message-id`. */
  readonly id: string;
  readonly key: string | Uint8Array;
  /** Beside the id; a name may repeat. */
  readonly headers: readonly (readonly [string, string | Uint8Array])[];
  /** To be sent as these bytes; by a source that carries values, a text as that text. */
  readonly body: string | Uint8Array;
}

/** The real source with the means to drive it: a broker, a queue, a file. Fresh for every test. */
export interface SourceHarness {
  /** Received from several times, one after the other. */
  readonly source: Source;
  /** Resolves once a reader can get the messages. */
  send(messages: readonly SuiteMessage[]): Promise<void>;
  /** Makes the broker give up waiting for what is in flight. Needed for `redelivers`; also called after a restart. */
  redeliverUnsettled?(): Promise<void>;
  /** Takes all lanes away from the running reader and gives them out again. Needed for `revokes`. */
  revoke?(): Promise<void>;
  close(): Promise<void>;
}

/** What the suite should expect. A text says why something is not expected, and becomes the reason of the skip. */
export interface SourceSuiteCapabilities extends SourceCapabilities {
  /** `attempt` rises with every time a message is handed over. */
  readonly countsAttempts: true | string;
  /** A running reader gets again what it does not settle in time. */
  readonly redelivers: true | string;
  /** Lanes can be taken away. */
  readonly revokes: true | string;
  /** A header name can be repeated. */
  readonly repeatsHeaders: true | string;
  /** Texts may hold U+0000. */
  readonly nul: true | string;
  /** Bodies, keys and header values are any bytes. */
  readonly binary: true | string;
}

/** Registers one test, or its skip when `needs` is the reason for one. */
export type Check = (title: string, needs: true | string, body: (run: Run) => Promise<void>) => void;

export function checkWith(
  test: TestFunction,
  name: string,
  create: () => Promise<SourceHarness>,
  boundMs: number,
): Check {
  return (title, needs, body) => {
    if (needs !== true) {
      // The reason is in the title too, for runners whose tests cannot skip themselves.
      test(`${name}: ${title} [not here: ${needs}]`, async context => void context?.skip?.(needs));
      return;
    }
    test(`${name}: ${title}`, async () => {
      const run = new Run(await create(), boundMs);
      try {
        await body(run);
      } finally {
        await run.close();
      }
    });
  };
}

const CONSUMER = 'suite';

/** A harness and everything that one test has started on it. */
export class Run {
  readonly harness: SourceHarness;
  readonly #boundMs: number;
  readonly #positions = mapPositions();
  #receiver: Receiver | undefined;

  constructor(harness: SourceHarness, boundMs: number) {
    this.harness = harness;
    this.#boundMs = boundMs;
  }

  /** Rejects when `promise` takes longer than the bound. */
  within<T>(promise: Promise<T>, what: string): Promise<T> {
    return within(promise, what, this.#boundMs);
  }

  send(...ids: readonly string[]): Promise<void> {
    return this.harness.send(ids.map(id => ({ id, key: 'account-7', headers: [], body: `body of ${id}` })));
  }

  /** A consumer starts; one that runs is stopped before. */
  async start(): Promise<Receiver> {
    await this.stop();
    this.#receiver = new Receiver(this.harness.source, CONSUMER, this.#positions, this.#boundMs);
    return this.#receiver;
  }

  /** As `start`, and the broker takes what the stopped one had in flight for lost. */
  async restart(): Promise<Receiver> {
    await this.stop();
    await this.harness.redeliverUnsettled?.();
    return this.start();
  }

  async stop(): Promise<void> {
    const receiver = this.#receiver;
    this.#receiver = undefined;
    await receiver?.stop();
  }

  async close(): Promise<void> {
    try {
      await this.stop();
    } finally {
      await this.harness.close();
    }
  }
}

export function idsOf(taken: readonly { readonly delivery: Delivery }[]): (string | undefined)[] {
  return taken.map(({ delivery }) => delivery.headers.get('message-id'));
}

function mapPositions(): Positions {
  const saved = new Map<string, string>();
  const keyOf = (consumer: string, lane: string) => JSON.stringify([consumer, lane]);
  return {
    load: async (consumer, lane) => saved.get(keyOf(consumer, lane)),
    save: async (consumer, lane, position) => void saved.set(keyOf(consumer, lane), position),
  };
}
