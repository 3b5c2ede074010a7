/**
 * Lets statements on one client run one after the other: a `pg` client that does not pipeline will no longer queue them
 * from version 9 on, and a handler may well send two at once, or one while our own is running.
 */
export class Turns {
  #last: Promise<unknown> | undefined;

  /** Runs `send` at once when nothing is running, else when everything before it has ended, in whatever way. */
  run<R>(send: () => Promise<R>): Promise<R> {
    const mine = this.#last === undefined ? send() : this.#last.then(send, send);
    this.#last = mine;
    const ended = () => {
      if (this.#last === mine) this.#last = undefined;
    };
    mine.then(ended, ended);
    return mine;
  }
}

const turnsOf = new WeakMap<object, Turns>();

/** Runs a statement on a client when its turn has come, which on a pipelined one is always. */
export function inTurn<R>(client: { readonly pipeline?: boolean }, send: () => Promise<R>): Promise<R> {
  if (client.pipeline === true) return send();
  let turns = turnsOf.get(client);
  if (turns === undefined) {
    turns = new Turns();
    turnsOf.set(client, turns);
  }
  return turns.run(send);
}
