import type { PointAt, Points, Step } from '../ports/points.ts';

/** A named point at which the path stands still until it is released. */
export interface Held {
  /** Resolves when a message has arrived there. */
  readonly reached: Promise<PointAt>;
  /** Lets it go on. Calling it again does nothing. */
  release(): void;
}

interface Gate extends Held {
  readonly step: Step;
  readonly edge: 'before' | 'after';
  readonly id: string | undefined;
  arrive(at: PointAt): Promise<void>;
}

/** Holds messages at named points. Each gate holds the first that arrives, and only that one. */
export class Gates implements Points {
  readonly #gates = new Set<Gate>();

  hold(step: Step, edge: 'before' | 'after', id: string | undefined): Held {
    const reached = Promise.withResolvers<PointAt>();
    const released = Promise.withResolvers<void>();
    const gate: Gate = {
      step,
      edge,
      id,
      reached: reached.promise,
      release: () => released.resolve(),
      arrive: at => {
        reached.resolve(at);
        return released.promise;
      },
    };
    this.#gates.add(gate);
    return gate;
  }

  reach(at: PointAt): void | Promise<void> {
    for (const gate of this.#gates) {
      if (gate.step !== at.step || gate.edge !== at.edge) continue;
      if (gate.id !== undefined && !at.ids.includes(gate.id)) continue;
      this.#gates.delete(gate);
      return gate.arrive(at);
    }
  }

  /** Lets everything go, so that a failed test does not hang in its clean-up. */
  releaseAll(): void {
    for (const gate of this.#gates) gate.release();
    this.#gates.clear();
  }
}
