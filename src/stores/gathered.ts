interface Caller<T, R> {
  readonly items: readonly T[];
  readonly resolve: (answers: readonly R[]) => void;
  readonly reject: (error: unknown) => void;
}

/** A call does not grow beyond this by gathering: a server that is busy with one answers nobody else. */
const MOST = 500;

/**
 * What several lanes ask of a server in one turn of the event loop, in one call: with a message or two for each lane, most of the
 * time goes into the calls themselves. A call that fails fails for all who came along.
 */
export class Gathered<T, R> {
  readonly #call: (items: readonly T[]) => Promise<readonly R[]>;
  #callers: Caller<T, R>[] = [];

  constructor(call: (items: readonly T[]) => Promise<readonly R[]>) {
    this.#call = call;
  }

  /** One answer for each item, in order. */
  ask(items: readonly T[]): Promise<readonly R[]> {
    const { promise, resolve, reject } = Promise.withResolvers<readonly R[]>();
    this.#callers.push({ items, resolve, reject });
    if (this.#callers.length === 1) setImmediate(() => this.#callAll());
    return promise;
  }

  #callAll(): void {
    const callers = this.#callers;
    this.#callers = [];
    for (let from = 0; from < callers.length; ) {
      let to = from + 1;
      let size = callers[from]!.items.length;
      while (to < callers.length && size + callers[to]!.items.length <= MOST) size += callers[to++]!.items.length;
      void this.#callFor(callers.slice(from, to));
      from = to;
    }
  }

  async #callFor(callers: readonly Caller<T, R>[]): Promise<void> {
    try {
      const answers = await this.#call(
        callers.length === 1 ? callers[0]!.items : callers.flatMap(({ items }) => items),
      );
      let at = 0;
      for (const { items, resolve } of callers) {
        resolve(answers.slice(at, at + items.length));
        at += items.length;
      }
    } catch (error) {
      for (const { reject } of callers) reject(error);
    }
  }
}
