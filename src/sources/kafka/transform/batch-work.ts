import { backoffMs } from '../../../core/backoff.ts';
import { onAbort } from '../../../core/on-abort.ts';
import { describeError, isNevertwiceError, isOutage, NevertwiceError } from '../../../errors.ts';
import type { Delivery } from '../../../ports/delivery.ts';
import { type ProducedRecord, ProducerFailure, type TransactionalProducer } from '../producer.ts';
import { type Cause, deadRecord } from './dead-record.ts';
import { type Input, inputOf } from './input.ts';
import { type LaneWork, reach } from './lane-work.ts';
import { recordsOf } from './outputs.ts';
import type { Outputs } from './types.ts';

/** Outputs of the first `done` inputs, and why there are no more. */
interface Made {
  readonly done: number;
  readonly outputs: readonly ProducedRecord[];
  readonly failure?: { readonly error: unknown };
}

/** What ends the work on a lane in silence: it is not ours any more, or the time to stop is over. */
class CutOff extends Error {}

/**
 * Turns records into transactions, in order: transform, write outputs and offset, commit. A record that fails is tried again
 * alone, so that those before it are committed and no transaction waits for it.
 */
export class BatchWork {
  readonly #work: LaneWork;
  readonly #producer: TransactionalProducer;
  /** Most inputs in one transaction: halved when a batch fails, to find the one that does, and grown again. */
  #most: number;
  /** Failed calls for the record that is next, alone. */
  #failures = 0;

  constructor(work: LaneWork, producer: TransactionalProducer) {
    this.#work = work;
    this.#producer = producer;
    this.#most = work.settings.maxBatch;
  }

  /** Ends early when the work stops. Rejects with `ProducerFailure`, or with what `run` is to reject with. */
  async process(deliveries: readonly Delivery[]): Promise<void> {
    const { settings, stopping } = this.#work;
    let inputs: readonly Input[] = deliveries.map(delivery => inputOf(delivery, settings.decode));
    try {
      while (inputs.length > 0 && !stopping.aborted) inputs = inputs.slice(await this.#step(inputs));
    } catch (error) {
      if (!(error instanceof CutOff)) throw error;
    }
  }

  /** How many inputs are done with. */
  async #step(inputs: readonly Input[]): Promise<number> {
    const { settings } = this.#work;
    const [first] = inputs as [Input, ...Input[]];
    if (first.unreadable !== undefined) {
      await this.#setAside(first, { kind: 'bad-message', reason: first.unreadable, attempts: 0 });
      return 1;
    }
    const unreadable = inputs.findIndex(input => input.unreadable !== undefined);
    const most = this.#failures > 0 ? 1 : this.#most;
    const some = inputs.slice(0, Math.min(most, unreadable === -1 ? inputs.length : unreadable));
    const made = await this.#transform(some);
    let failure = made.failure;
    let tried = some.length;
    let done = made.done;
    if (done > 0) {
      const unwritten = await this.#commit(some.slice(0, done), made.outputs);
      if (unwritten === undefined) {
        this.#work.counts.processed += done;
        this.#work.counts.produced += made.outputs.length;
        this.#failures = 0;
      } else {
        failure = { error: unwritten };
        tried = done;
        done = 0;
      }
    }
    if (failure === undefined) {
      this.#most = Math.min(settings.maxBatch, this.#most * 2);
      return done;
    }
    this.#work.counts.failed++;
    // A call for several, or a transaction of several: which of them it is, halves tell.
    const together = done === 0 && tried > 1 && ('many' in settings.transform || made.failure === undefined);
    if (together) {
      this.#most = Math.ceil(tried / 2);
      return 0;
    }
    return done + (await this.#failed(inputs[done]!, failure.error));
  }

  async #transform(inputs: readonly Input[]): Promise<Made> {
    const { transform } = this.#work.settings;
    const context = { signal: this.#work.cutOff };
    const messages = inputs.map(({ message }) => ({ ...message, attempt: this.#failures + 1 }));
    let made: Made;
    if ('many' in transform) {
      made = await this.#call(() => transform.many(messages, context)).then(
        outputs => ({ done: inputs.length, outputs }),
        error => ({ done: 0, outputs: [], failure: { error } }),
      );
    } else {
      const outputs: ProducedRecord[] = [];
      let done = 0;
      let failure: Made['failure'];
      while (done < messages.length && failure === undefined && !this.#work.stopping.aborted) {
        const message = messages[done]!;
        await this.#call(() => transform.one(message, context)).then(
          records => {
            outputs.push(...records);
            done++;
          },
          error => {
            failure = { error };
          },
        );
      }
      made = failure === undefined ? { done, outputs } : { done, outputs, failure };
    }
    this.#assertOurs();
    await reach(this.#work, 'handle', 'after', positionsOf(inputs.slice(0, made.done)));
    return made;
  }

  /** Does not wait for a transform that has been cut off. */
  async #call(run: () => Outputs | Promise<Outputs>): Promise<readonly ProducedRecord[]> {
    const over = Promise.withResolvers<never>();
    over.promise.catch(() => undefined);
    const unheard = onAbort(this.#work.cutOff, () => over.reject(new CutOff()));
    try {
      return recordsOf(await Promise.race([over.promise, (async () => run())()]));
    } finally {
      unheard();
    }
  }

  #assertOurs(): void {
    if (this.#work.cutOff.aborted || this.#work.lane.revoked.aborted) throw new CutOff();
  }

  /** Outputs and offset together. With the failure where the broker takes none of these outputs; nothing is committed then. */
  async #commit(inputs: readonly Input[], outputs: readonly ProducedRecord[]): Promise<ProducerFailure | undefined> {
    const { lane, troubles } = this.#work;
    const positions = positionsOf(inputs);
    this.#assertOurs();
    try {
      await this.#producer.transact({
        outputs,
        offset: { ...lane.at, offset: inputs.at(-1)!.offset + 1n },
        produced: async () => {
          await reach(this.#work, 'record', 'before', positions);
          this.#assertOurs();
        },
      });
    } catch (error) {
      if (error instanceof ProducerFailure && error.kind === 'unwritable') return error;
      throw error;
    }
    await reach(this.#work, 'record', 'after', positions);
    troubles.failures = 0;
    // Lets go of what it remembers of them. Nothing is committed by it: that has just happened.
    await lane.settle(inputs.map(({ delivery }) => ({ delivery, settle: 'ack' })));
    return undefined;
  }

  /** A record that failed alone. 1 once it is set aside, 0 when it is to be tried again. */
  async #failed(input: Input, error: unknown): Promise<0 | 1> {
    const { settings, stopping } = this.#work;
    const { clock, backoff, attempts } = settings;
    const down = isOutage(error);
    if (down) settings.warn('NT_STORE_DOWN', `${settings.groupId} pauses: ${describeError(error)}`);
    else this.#failures++;
    const rejected = isNevertwiceError(error, 'NT_REJECTED') || isNevertwiceError(error, 'NT_BAD_MESSAGE');
    if (rejected || this.#failures >= attempts) {
      const reason = describeError(error instanceof ProducerFailure ? error.cause : error);
      await this.#setAside(input, {
        kind: rejected ? 'rejected' : 'attempts',
        reason,
        attempts: this.#failures,
        error,
      });
      this.#failures = 0;
      return 1;
    }
    await clock.sleep(backoffMs(Math.max(this.#failures, 1), backoff, clock.random()), stopping);
    return 0;
  }

  async #setAside(input: Input, cause: Cause & { readonly error?: unknown }): Promise<void> {
    const { settings, counts } = this.#work;
    const topic = settings.deadLetterTopic;
    if (topic === undefined) throw this.#stuck(input, cause, 'there is no deadLetterTopic for it');
    const unwritten = await this.#commit([input], [deadRecord(topic, input, cause)]);
    if (unwritten !== undefined) throw this.#stuck(input, cause, `${topic} does not take it`);
    counts.deadLetters++;
  }

  #stuck({ position }: Input, { kind, reason, error }: Cause & { readonly error?: unknown }, why: string) {
    return new NevertwiceError(
      kind === 'bad-message' ? 'NT_BAD_MESSAGE' : 'NT_REJECTED',
      `${this.#work.settings.groupId}: ${position} cannot be transformed, and ${why}: ${reason}`,
      { cause: error },
    );
  }
}

function positionsOf(inputs: readonly Input[]): readonly string[] {
  return inputs.map(({ position }) => position);
}
