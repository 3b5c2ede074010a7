import { identitySignature } from '../../../src/identity/identity.ts';
import { type ConsumerRegistration, header } from '../../../src/index.ts';
import type { LeaseTarget } from '../../stores/lease-targets.ts';
import type { Place } from './places.ts';

/** What one process is told to do. */
export interface Job {
  readonly target: LeaseTarget;
  /** JSON lines. */
  readonly input: string;
  /** Where effects go: lines that are only ever appended, or a database that refuses a token that is not higher. */
  readonly effects: { readonly lines: string } | { readonly fenced: string };
  readonly leaseMs: number;
  /** What to do when it comes to `place` for the `nth` time. */
  readonly fault?: { readonly signal: 'SIGKILL' | 'SIGSTOP'; readonly place: Place; readonly nth: number };
}

/** What a process says at its end, in JSON. `stale` is how many of its calls were refused since it had been replaced. */
export interface Ending {
  readonly processed: number;
  readonly duplicates: number;
  readonly stale: number;
}

/** The consumer of the fault runs on lease stores. */
export const CONSUMER = { name: 'pay', identity: header('message-id') } as const;

/** The same consumer for who asks its store; with another signature the store would refuse to open. */
export const REGISTRATION: ConsumerRegistration = {
  name: CONSUMER.name,
  signature: identitySignature(CONSUMER.identity),
};
