import type { VerifyMessage } from '../options.ts';

/** What the verifier says to a process with the user's handler in it. */
export type ToChild =
  | {
      readonly say: 'deliver';
      readonly delivery: number;
      readonly messages: readonly VerifyMessage[];
      readonly attempt: number;
      /** By so much the clock of the process is ahead meanwhile. */
      readonly aheadMs: number;
    }
  /** Wants a `pong`: by then everything that was on its way has arrived. */
  | { readonly say: 'ping' }
  /** The answer to a `broker` request. */
  | { readonly say: 'answer'; readonly request: number; readonly error?: string };

/** And what it hears. */
export type FromChild =
  | { readonly say: 'ready' }
  | { readonly say: 'broken'; readonly why: string }
  /** The handler asks the broker by hand. */
  | { readonly say: 'broker'; readonly request: number; readonly what: BrokerRequest }
  | { readonly say: 'done'; readonly delivery: number; readonly error?: string; readonly readClock?: boolean }
  | { readonly say: 'pong' }
  /** Something that nobody holds: a connection past the proxies, a timer. */
  | { readonly say: 'ungated'; readonly what: string };

export interface BrokerRequest {
  readonly kind: 'ack' | 'nack' | 'extend' | 'publish';
  /** Of a publication: what is compared in the end. */
  readonly value?: unknown;
}

export interface ChildSettings {
  /** URL of the module. */
  readonly module: string;
  readonly export: string | undefined;
  /** The handler takes all messages of a delivery as one array. */
  readonly batch: boolean;
  /** The handler tells the broker by hand; what it returns says nothing. */
  readonly manualAck: boolean;
  /** A file of SQLite whose statements are held in the process itself. */
  readonly sqlite: string | undefined;
  /** Ports that lead to gates. */
  readonly gated: readonly number[];
}
