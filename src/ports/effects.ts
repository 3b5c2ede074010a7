/** A call that is about to be made. */
export interface EffectIntent {
  /** What the downstream is told, and what the row is found by: see `effects/key.ts`. */
  readonly key: string;
  readonly consumer: string;
  readonly messageId: string;
  /** The step: `charge`. */
  readonly name: string;
  /** Of the arguments, as lower-case hex; undefined where none were given. */
  readonly fingerprint: string | undefined;
  /** Proof of ownership, made anew for each try. The same intent sent again with it is the same intent. */
  readonly nonce: string;
  readonly leaseMs: number;
  /** Begin although nobody knows what became of the last call. */
  readonly takeOver: boolean;
}

/** What the ledger says to an intent. */
export type EffectAnswer =
  /** It is recorded: call. `unknown`: an earlier call may have had its effect. */
  | { readonly answer: 'call'; readonly unknown: boolean }
  /** It was called before; the JSON of what it returned, or undefined for nothing. */
  | { readonly answer: 'done'; readonly result: string | undefined }
  /** Somebody else is calling right now, or died so lately that nobody can tell. */
  | { readonly answer: 'busy' }
  /** A call was begun and nobody knows what became of it. Only without `takeOver`. */
  | { readonly answer: 'unknown' }
  /** It was begun with other arguments. */
  | { readonly answer: 'conflict' };

/** A call in the ledger, for people. */
export interface EffectRecord {
  readonly key: string;
  readonly consumer: string;
  readonly messageId: string;
  readonly name: string;
  /** `calling`: somebody has it. `unknown`: it was begun, and nobody knows what became of it. `not-done`: it may be made anew. */
  readonly state: 'calling' | 'unknown' | 'done' | 'not-done';
  readonly calls: number;
  readonly at: Date;
}

/**
 * The record of calls to others. Each call of these is durable by itself when it resolves, whatever becomes of the handler's
 * transaction. Time is the store's. Rejects with NT_STORE_DOWN when the store cannot be reached.
 */
export interface EffectRows {
  /**
   * Where a statement of the ledger runs while a handler's transaction is open on the same store: on a connection of its own
   * (`apart`), on a second one of the same pool (`pool`), or not at all, and why.
   */
  readonly beside: 'apart' | 'pool' | { readonly never: string };
  begin(intent: EffectIntent): Promise<EffectAnswer>;
  /** False where somebody else has it by now. */
  renew(key: string, nonce: string, leaseMs: number): Promise<boolean>;
  /** `result` is JSON. False where somebody else has it by now: nothing was changed. */
  complete(key: string, nonce: string, result: string | undefined): Promise<boolean>;
  /** The call has ended without a result: it was not made, or nobody knows. */
  giveUp(key: string, nonce: string, notDone: boolean): Promise<void>;
  /** Newest first. */
  list(filter: {
    readonly consumer?: string;
    readonly state?: EffectRecord['state'];
  }): Promise<readonly EffectRecord[]>;
  /** What a person found out downstream: it did not happen, or it did and returned this JSON. False where it was not unknown (any more). */
  decide(key: string, decision: 'not-done' | { readonly result: string | undefined }): Promise<boolean>;
}
