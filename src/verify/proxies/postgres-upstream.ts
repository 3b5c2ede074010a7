import { connect, type Socket } from 'node:net';
import { type Message, Messages } from './postgres-messages.ts';

/** One connection to the server. It outlives the client that opened it: logging in anew costs more than an execution. */
export class Upstream {
  readonly socket: Socket;
  backend: number | undefined;
  /** What the server said to the client that logged in, from its parameters on: what every later client hears. */
  readonly #greeting: Buffer[] = [];
  readonly #said = new Messages('server');
  #loggedIn = false;
  #hear: (message: Message) => void = () => undefined;
  #closed: () => void = () => undefined;

  constructor(host: string, port: number) {
    this.socket = connect({ host, port });
    this.socket.setNoDelay(true);
    this.socket.on('error', () => undefined);
    this.socket.on('data', data => {
      this.#said.push(data);
      for (let message = this.#said.next(); message !== undefined; message = this.#said.next()) this.#heard(message);
    });
    this.socket.on('close', () => this.#closed());
  }

  get loggedIn(): boolean {
    return this.#loggedIn;
  }

  /** Who hears the server from now on. */
  belongsTo(hear: (message: Message) => void, closed: () => void): void {
    this.#hear = hear;
    this.#closed = closed;
  }

  write(bytes: Buffer): void {
    this.socket.write(bytes);
  }

  /** What a client hears that need not log in any more. */
  greeting(): Buffer {
    const welcome = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 0]);
    return Buffer.concat([welcome, ...this.#greeting]);
  }

  /**
   * Ends everything that its client has left: its transaction, its locks, its statements and settings. False when the server
   * will not.
   */
  async clean(): Promise<boolean> {
    for (const text of ['ROLLBACK', 'DISCARD ALL']) {
      if (!(await this.#run(text))) return false;
    }
    return true;
  }

  #run(text: string): Promise<boolean> {
    return new Promise(resolve => {
      let failed = false;
      this.belongsTo(
        ({ type }) => {
          if (type === 'E') failed = true;
          if (type === 'Z') resolve(!failed);
        },
        () => resolve(false),
      );
      const body = Buffer.from(`${text}\0`);
      const head = Buffer.alloc(5);
      head.write('Q');
      head.writeUInt32BE(4 + body.length, 1);
      this.write(Buffer.concat([head, body]));
    });
  }

  #heard(message: Message): void {
    if (!this.#loggedIn) {
      const { type } = message;
      if (type === 'K') this.backend = message.body.readInt32BE(0);
      if (type === 'S' || type === 'K' || type === 'Z') this.#greeting.push(Buffer.from(message.bytes));
      if (type === 'Z') this.#loggedIn = true;
    }
    this.#hear(message);
  }
}

/** Most connections that wait for their next client; each is a process of the server. */
const KEPT = 8;

/** Connections whose clients have gone, by what those said when they logged in. */
export class Upstreams {
  readonly #host: string;
  readonly #port: number;
  readonly #kept = new Map<string, Upstream[]>();
  #closed = false;

  constructor(host: string, port: number) {
    this.#host = host;
    this.#port = port;
  }

  /** One that another client has logged in with the very same words; undefined when there is none. */
  take(startup: Buffer): Upstream | undefined {
    const waiting = this.#kept.get(startup.toString('latin1')) ?? [];
    for (let one = waiting.pop(); one !== undefined; one = waiting.pop()) if (!one.socket.destroyed) return one;
    return undefined;
  }

  open(): Upstream {
    return new Upstream(this.#host, this.#port);
  }

  /** The client of this one is gone. Resolves to false when the connection has to be closed instead. */
  async giveBack(upstream: Upstream, startup: Buffer): Promise<boolean> {
    if (!upstream.loggedIn || upstream.socket.destroyed || !(await upstream.clean())) return false;
    const key = startup.toString('latin1');
    const waiting = this.#kept.get(key) ?? [];
    if (this.#closed || waiting.length >= KEPT) return false;
    upstream.belongsTo(
      () => undefined,
      () => undefined,
    );
    this.#kept.set(key, [...waiting, upstream]);
    return true;
  }

  close(): void {
    this.#closed = true;
    for (const waiting of this.#kept.values()) for (const one of waiting) one.socket.destroy();
  }
}
