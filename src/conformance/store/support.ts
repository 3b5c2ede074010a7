import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { classifyFailure } from '../../core/failures.ts';
import { type ErrorCode, isNevertwiceError } from '../../errors.ts';
import { type Claim, Contended, type DeadLetter, type Store, type TransactionalStore } from '../../ports/store.ts';
import type { TestContext, TestFunction } from '../test-function.ts';

/** A store to test, and what a test may do around it. */
export interface StoreHarness<S extends Store> {
  readonly store: S;
  /** Another store on the same data with connections of its own, as another process has. Default: the same store. */
  readonly secondStore?: () => S | Promise<S>;
  /** Runs one statement through the handle that handlers get, in the client's own way. */
  readonly useHandle?: S extends TransactionalStore<infer Tx> ? (tx: Tx) => unknown : never;
  /** A transaction that the caller has begun on a connection of his own: committed when `work` resolves. */
  readonly callersTransaction?: S extends TransactionalStore<infer Tx>
    ? <R>(work: (tx: Tx) => Promise<R>) => Promise<R>
    : never;
  /** Lets time pass for the store's clock. Default: waits. */
  readonly passTime?: (ms: number) => Promise<void>;
  close(): Promise<void>;
}

/** What a group of tests gets to register its tests with. */
export type Register<S extends Store> = (
  title: string,
  run: (harness: StoreHarness<S>, context: TestContext) => Promise<void>,
) => void;

/** Registers tests that each create a store and close it. */
export function registerWith<S extends Store>(
  test: TestFunction,
  name: string,
  create: () => Promise<StoreHarness<S>>,
): Register<S> {
  return (title, run) => {
    test(`${name}: ${title}`, async context => {
      const harness = await create();
      try {
        await run(harness, context);
      } finally {
        await harness.close();
      }
    });
  };
}

export const budget = { budgetMs: 10_000, overlap: false } as const;

/** A name that no other test and no other run has: suites may share a database. */
export function unique(what: string): string {
  return `${what}-${randomBytes(6).toString('hex')}`;
}

export function registration(name = unique('consumer')): { name: string; signature: string } {
  return { name, signature: 'suite/1' };
}

/** A claim for any bytes; text is taken as UTF-8 behind the tag of raw ids. */
export function claimOf(id: string | Uint8Array, fingerprint?: string): Claim {
  const key = typeof id === 'string' ? Buffer.concat([Buffer.of(2), Buffer.from(id)]) : id;
  return { key, hex: Buffer.from(key).toString('hex'), fingerprint };
}

export function letterOf(dedupe: string, changes: Partial<DeadLetter> = {}): DeadLetter {
  return {
    messageId: 'm1',
    dedupe,
    reason: 'the amount is negative',
    kind: 'rejected',
    attempts: 1,
    lane: 'payments/0',
    position: 'payments/0/17',
    type: 'payment',
    key: undefined,
    time: new Date(1_700_000_000_000),
    headers: [['message-id', 'm1']],
    payload: Buffer.from('{"amount":-1}'),
    ...changes,
  };
}

/** 16 bytes of fingerprint as hex. */
export const fingerprints = { a: 'aa'.repeat(16), b: 'bb'.repeat(16) } as const;

/** A door that tests open: the named point instead of a sleep. */
export function gate(): { readonly opened: Promise<void>; open(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}

export function pause(ms: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, ms));
}

/** Again while a live owner is in the way or won the race, as the consumer does it; for at most 20 seconds. */
export async function untilFree<R>(work: () => Promise<R>): Promise<R> {
  for (const start = performance.now(); ; await pause(5)) {
    try {
      return await work();
    } catch (error) {
      const again = error instanceof Contended || classifyFailure(error) === 'transient';
      if (!again || performance.now() - start > 20_000) throw error;
    }
  }
}

export async function rejectsWith(code: ErrorCode, work: Promise<unknown> | (() => Promise<unknown>)): Promise<void> {
  const promise = typeof work === 'function' ? (async () => work())() : work;
  await assert.rejects(promise, error => {
    assert.ok(isNevertwiceError(error, code), `wanted ${code}, got ${error}`);
    assert.ok(!(error as Error).message.includes('\n'), 'the message has one line');
    return true;
  });
}

/** Effects in a table of the suite, in SQL that every database reads. */
export class Effects {
  readonly id = unique('effect');
  readonly #store: TransactionalStore<any>;

  private constructor(store: TransactionalStore<any>) {
    this.#store = store;
  }

  static async on(store: TransactionalStore<any>): Promise<Effects> {
    await store.setup('suite', async sql => {
      await sql`CREATE TABLE IF NOT EXISTS suite_effects (id text, amount integer)`;
    });
    return new Effects(store);
  }

  /** The amounts written so far and committed, in rising order. */
  async amounts(): Promise<readonly number[]> {
    const rows = await this.#store.transaction(
      (_, sql) => sql<{ amount: number }>`SELECT amount FROM suite_effects WHERE id = ${this.id} ORDER BY amount`,
    );
    return rows.map(row => Number(row.amount));
  }
}
