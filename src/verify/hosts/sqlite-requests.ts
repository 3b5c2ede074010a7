import type { Duplex } from 'node:stream';
import type { Held, OnHeld, Reply } from '../gate.ts';
import type { FromSqlite, ToSqlite } from './sqlite-words.ts';

/** Hands over each statement that a process asks about on its pipe. One at a time: the process stands still meanwhile. */
export function hearSqlite(pipe: Duplex, onHeld: OnHeld): void {
  let heard = '';
  let asked: Statement | undefined;
  let gone = false;
  const tell = (word: ToSqlite) => void (gone || pipe.write(`${word}\n`));
  pipe.setEncoding('utf8');
  pipe.on('data', (text: string) => {
    const lines = (heard + text).split('\n');
    heard = lines.pop()!;
    for (const line of lines) {
      const said = JSON.parse(line) as FromSqlite;
      if (said.say === 'ask') {
        asked = new Statement(said, tell);
        onHeld(asked);
      } else if (said.say === 'did') asked?.did(said);
      else asked?.waits();
    }
  });
  // The process is dead, and SQLite has rolled back what it had not committed.
  const end = () => {
    gone = true;
    asked?.died();
  };
  pipe.on('error', end);
  pipe.on('close', end);
}

class Statement implements Held {
  readonly place = 'sqlite';
  readonly quiet = false;
  readonly connection: number;
  readonly text: string;
  gone = false;
  readonly #tell: (word: ToSqlite) => void;
  readonly #done = Promise.withResolvers<Reply>();
  #waiting = false;
  #met = Promise.withResolvers<void>();

  constructor(
    { connection, text }: { readonly connection: number; readonly text: string },
    tell: (word: ToSqlite) => void,
  ) {
    this.connection = connection;
    this.text = text;
    this.#tell = tell;
  }

  send(): Promise<Reply> {
    this.#tell('go');
    return this.#done.promise;
  }

  answer(): void {
    this.#tell('on');
  }

  /** Tries again where it has met a lock. Resolves when it meets one: nobody else tells, and time has nothing to do with it. */
  lockMet(): Promise<void> {
    if (this.#waiting) {
      this.#waiting = false;
      this.#met = Promise.withResolvers();
      this.#tell('again');
    }
    return this.#met.promise;
  }

  /** Its own limit ends its wait. */
  giveUp(): void {
    if (this.#waiting) this.#tell('late');
    this.#waiting = false;
  }

  waits(): void {
    this.#waiting = true;
    this.#met.resolve();
  }

  did(reply: Reply): void {
    this.#done.resolve({ text: reply.text, failed: reply.failed });
  }

  died(): void {
    this.gone = true;
    this.#done.resolve({ text: 'the process ended', failed: true });
  }

  // There is no connection that could be cut, and nothing that could be on its way: only the end of the process ends it.
  async cut(): Promise<void> {}

  land(): Promise<Reply> {
    return this.#done.promise;
  }

  async drop(): Promise<void> {}
}
