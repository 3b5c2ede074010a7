import type { PointAt, Points, Step } from '../ports/points.ts';

/** A named point at which the path stands still until it is released. */
export interface Held {
  /** Resolves when a message has arrived there; rejects when the consumer ends before one has. */
  readonly reached: Promise<PointAt>;
  /** Lets it go on, or lets the next one pass if none has arrived. Calling it again does nothing. */
  release(): void;
}

interface Gate extends Held {
  readonly step: Step;
  readonly edge: 'before' | 'after';
  readonly id: string | undefined;
  readonly released: Promise<void>;
  arrived(at: PointAt): void;
  givenUp(error: unknown): void;
}

/** Holds messages at named points. Each gate holds the first that arrives, and only that one. */
export class Gates implements Points {
  /** Nobody has arrived yet. */
  readonly #empty = new Set<Gate>();
  readonly #holding = new Set<Gate>();
  #ended: { readonly error: unknown } | undefined;

  hold(step: Step, edge: 'before' | 'after', id: string | undefined): Held {
    const reached = Promise.withResolvers<PointAt>();
    const released = Promise.withResolvers<void>();
    // A test need not look whether somebody came.
    reached.promise.catch(() => undefined);
    const gate: Gate = {
      step,
      edge,
      id,
      reached: reached.promise,
      released: released.promise,
      arrived: reached.resolve,
      givenUp: reached.reject,
      release: () => {
        this.#empty.delete(gate);
        this.#holding.delete(gate);
        released.resolve();
      },
    };
    if (this.#ended === undefined) this.#empty.add(gate);
    else gate.givenUp(this.#ended.error);
    return gate;
  }

  reach(at: PointAt): void | Promise<void> {
    for (const gate of this.#empty) {
      if (gate.step !== at.step || gate.edge !== at.edge) continue;
      if (gate.id !== undefined && !at.ids.includes(gate.id)) continue;
      this.#empty.delete(gate);
      this.#holding.add(gate);
      gate.arrived(at);
      return gate.released;
    }
  }

  /** Lets everything go and holds nobody any more, so that a failed test does not hang in its clean-up. */
  end(error: unknown): void {
    this.#ended ??= { error };
    for (const gate of this.#empty) gate.givenUp(error);
    for (const gate of [...this.#empty, ...this.#holding]) gate.release();
  }
}
