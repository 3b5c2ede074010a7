import { randomUUID } from 'node:crypto';
import { losslessJson } from '../core/lossless-json.ts';
import { anyOf } from '../core/on-abort.ts';
import type { ReadyEntry } from '../entry.ts';
import { isNevertwiceError, NevertwiceError, Reject } from '../errors.ts';
import { fingerprintOf } from '../identity/fingerprint.ts';
import type { Path, Scope } from '../path.ts';
import type { EffectRows } from '../ports/effects.ts';
import { Contended } from '../ports/store.ts';
import { type Effect, type EffectCall, type EffectOptions, NotDone } from './effect.ts';
import { effectKey } from './key.ts';

/** How often a result is told to the ledger before the call counts as one of unknown outcome. */
const TELLS = 5;

/**
 * The calls that the handler of one message makes. Each is written into the ledger before it is made and after it has returned,
 * in transactions of the ledger's own, so that a redelivery knows what was done although the handler's transaction is gone.
 *
 *     intent ─► call ─► result        a redelivery gets the result
 *     intent ─► call ─✖               unknown: `retry`, `hold` or `mayRepeat`
 *     intent ─► NotDone               called again
 */
export class Effects {
  readonly #path: Path;
  readonly #scope: Scope;
  readonly #rows: EffectRows;
  readonly #entry: ReadyEntry;
  readonly #signal: AbortSignal;
  readonly #names = new Set<string>();
  readonly #open = new Set<Promise<unknown>>();
  #failure: { readonly error: unknown } | undefined;

  constructor(path: Path, scope: Scope, rows: EffectRows, entry: ReadyEntry, signal: AbortSignal) {
    this.#path = path;
    this.#scope = scope;
    this.#rows = rows;
    this.#entry = entry;
    this.#signal = signal;
  }

  readonly effect: Effect = <R>(name: string, call: EffectCall<R>, options: EffectOptions = {}) => {
    const done = this.#effect(name, call, options);
    this.#open.add(done);
    const ended = () => this.#open.delete(done);
    done.then(ended, ended);
    return done;
  };

  /**
   * Awaits what the handler has not, and throws what must not be swallowed by it: while somebody else may be calling, or
   * nobody knows whether a call happened, its message is not done.
   */
  async ended(): Promise<void> {
    while (this.#open.size > 0) await Promise.allSettled(this.#open);
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  async #effect<R>(name: string, call: EffectCall<R>, options: EffectOptions): Promise<R> {
    try {
      return await this.#once(name, call, options);
    } catch (error) {
      if (error instanceof Stays) {
        this.#failure ??= { error: error.reason };
        throw error.reason;
      }
      throw error;
    }
  }

  async #once<R>(name: string, call: EffectCall<R>, { args, onUnknown = 'retry' }: EffectOptions): Promise<R> {
    this.#take(name);
    const { consumer, policy } = this.#path;
    const { claim, id, letter } = this.#entry;
    const key = effectKey(consumer, claim, name, letter?.revision);
    const nonce = randomUUID();
    const fingerprint = args === undefined ? undefined : fingerprintOf(args);
    const intent = { key, consumer, messageId: id, name, fingerprint, nonce, leaseMs: policy.leaseMs };
    const answer = await this.#told(() => this.#rows.begin({ ...intent, takeOver: onUnknown !== 'hold' }));
    switch (answer.answer) {
      case 'done':
        return (answer.result === undefined ? undefined : JSON.parse(answer.result)) as R;
      case 'busy':
        throw new Stays(new Contended());
      case 'conflict':
        throw new Stays(
          new Reject(
            `effect ${name} was begun with other arguments for this message; give it arguments that follow from the message alone, or another name`,
          ),
        );
      case 'unknown':
        throw new Stays(
          new Reject(
            `nobody knows whether effect ${name} happened (key ${key}); find out downstream, tell the ledger with decide(), and send the message through again`,
          ),
        );
      case 'call':
        if (answer.unknown && onUnknown === 'mayRepeat') this.#repeated(name);
    }
    return this.#call(name, call, { key, nonce });
  }

  #take(name: string): void {
    if (typeof name !== 'string' || name === '' || name.length > 200 || !name.isWellFormed()) {
      throw new NevertwiceError(
        'NT_CONFIG',
        'an effect needs a name of 1 to 200 characters: it tells the steps of one message apart',
      );
    }
    if (this.#names.has(name)) {
      throw new NevertwiceError(
        'NT_CONFIG',
        `effect ${JSON.stringify(name)} is called twice for one message, and the second would get the first one's result; tell them apart by name, as in ${JSON.stringify(`${name}:2`)}`,
      );
    }
    this.#names.add(name);
  }

  #repeated(name: string): void {
    const { counts, warn, consumer } = this.#path;
    counts.repeatedEffects = (counts.repeatedEffects ?? 0) + 1;
    warn(
      'NT_EFFECT_REPEATED',
      `${consumer}: effect ${name} is called again although an earlier call may have happened (onUnknown: 'mayRepeat')`,
    );
  }

  async #call<R>(
    name: string,
    call: EffectCall<R>,
    { key, nonce }: { readonly key: string; readonly nonce: string },
  ): Promise<R> {
    const lease = new Lease(this.#rows, key, nonce, this.#path.policy.leaseMs);
    const both = anyOf([this.#signal, lease.lost]);
    let result: R;
    try {
      await this.#reach('before');
      result = await call({ key, signal: both.signal });
      await this.#reach('after');
    } catch (error) {
      const notDone = error instanceof NotDone || isNevertwiceError(error, 'NT_REJECTED');
      // Where it cannot be told, the lease runs out by itself, and the outcome is as unknown as it is.
      await this.#rows.giveUp(key, nonce, notDone).catch(() => undefined);
      throw error instanceof NotDone ? error.cause : error;
    } finally {
      both.release();
      lease.end();
    }
    const text = losslessJson(result, (why, cause) => unfitResult(name, why, cause));
    if (await this.#told(() => this.#rows.complete(key, nonce, text))) return result;
    // Somebody took it over and is calling, or has been told the result of his own call: that one counts.
    throw new Stays(new Contended());
  }

  #reach(edge: 'before' | 'after'): void | Promise<void> {
    const { points, consumer } = this.#path;
    return points?.reach({ step: 'effect', edge, consumer, lane: this.#scope.lane, ids: [this.#entry.id] });
  }

  /** Each of these can be said again: the nonce tells that it is the same. */
  async #told<R>(tell: () => Promise<R>): Promise<R> {
    for (let tries = 1; ; tries++) {
      try {
        return await tell();
      } catch (error) {
        if (tries === TELLS || !isNevertwiceError(error, 'NT_STORE_DOWN')) throw error;
        await this.#path.clock.sleep(20 * 2 ** tries, this.#scope.abort);
      }
    }
  }
}

/** A failure that stands whatever the handler makes of it. */
class Stays extends Error {
  readonly reason: unknown;

  constructor(reason: unknown) {
    super('an effect cannot be decided');
    this.reason = reason;
  }
}

/** Kept for as long as the call takes. */
class Lease {
  readonly #timer: NodeJS.Timeout;
  readonly #lost = new AbortController();

  constructor(rows: EffectRows, key: string, nonce: string, leaseMs: number) {
    this.#timer = setInterval(() => {
      rows.renew(key, nonce, leaseMs).then(
        ours => ours || this.#lose(),
        // Until it is over there are two more tries.
        () => undefined,
      );
    }, leaseMs / 3);
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  #lose(): void {
    this.#lost.abort(new NevertwiceError('NT_LEASE_LOST', 'another process has taken this effect over'));
    this.end();
  }

  end(): void {
    clearInterval(this.#timer);
  }
}

function unfitResult(name: string, why: string, cause: unknown): NevertwiceError {
  return new NevertwiceError(
    'NT_CONFIG',
    `the ledger keeps what effect ${name} returned as JSON, and this cannot be kept: ${why}; return plain values, or nothing`,
    { cause },
  );
}
