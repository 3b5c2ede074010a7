interface State<M> {
  readonly messages: M[];
  working: boolean;
}

/** Batches out of a stream of single messages: one at a time for each partition, as large as what has come by then. */
export class Gathered<M extends { readonly partition: number }> {
  readonly #atMost: number;
  readonly #work: (partition: number, messages: readonly M[]) => Promise<void>;
  readonly #partitions = new Map<number, State<M>>();
  #waiting = 0;

  /** When `work` rejects, its partition stands still: who made it has heard of that. */
  constructor(atMost: number, work: (partition: number, messages: readonly M[]) => Promise<void>) {
    this.#atMost = atMost;
    this.#work = work;
  }

  /** Messages of which no work has begun. */
  get waiting(): number {
    return this.#waiting;
  }

  add(message: M): void {
    const state = this.#stateOf(message.partition);
    state.messages.push(message);
    this.#waiting++;
    if (state.working) return;
    state.working = true;
    // A fetch comes as one event for each message, all in one turn: not the first of them alone.
    setImmediate(() => void this.#drain(message.partition, state).catch(() => undefined));
  }

  #stateOf(partition: number): State<M> {
    let state = this.#partitions.get(partition);
    if (state === undefined) {
      state = { messages: [], working: false };
      this.#partitions.set(partition, state);
    }
    return state;
  }

  async #drain(partition: number, state: State<M>): Promise<void> {
    while (state.messages.length > 0) {
      const messages = state.messages.splice(0, this.#atMost);
      this.#waiting -= messages.length;
      await this.#work(partition, messages);
    }
    state.working = false;
  }
}
