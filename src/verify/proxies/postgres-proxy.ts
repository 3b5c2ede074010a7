import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import type { Gate, Held, OnHeld, Reply } from '../gate.ts';
import {
  CANCEL_REQUEST,
  codeOf,
  GSS_REQUEST,
  isQuiet,
  type Message,
  Messages,
  Outcome,
  SSL_REQUEST,
  Statements,
} from './postgres-messages.ts';
import type { Upstream, Upstreams } from './postgres-upstream.ts';

export interface PostgresTarget {
  readonly upstreams: Upstreams;
  /** Resolves when the server has none of these backends any more. */
  gone(backends: readonly number[]): Promise<void>;
}

/** In front of a PostgreSQL: every request is held until it is decided about. */
export async function postgresProxy(target: PostgresTarget, onHeld: OnHeld): Promise<Gate> {
  const links = new Set<Link>();
  let opened = 0;
  let refusing = false;
  const server = createServer(client => {
    if (refusing) {
      client.on('error', () => undefined);
      client.destroy();
      return;
    }
    const link = new Link(++opened, client, target, onHeld, () => links.delete(link));
    links.add(link);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as { port: number }).port,
    get backends() {
      return [...links].flatMap(link => link.backend ?? []);
    },
    reopen() {
      refusing = false;
    },
    async sever(kept) {
      refusing = true;
      const keeping = new Set(kept.flatMap(held => (held instanceof Unit ? [held.link] : [])));
      const closing = [...links].filter(link => !keeping.has(link));
      for (const link of keeping) link.orphan();
      await Promise.all(closing.map(link => link.cut()));
    },
    async close(kept = []) {
      server.close();
      const keeping = new Set(kept.flatMap(held => (held instanceof Unit ? [held.link] : [])));
      for (const link of links) if (!keeping.has(link)) link.destroy();
    },
  };
}

/** One connection of the consumer, and ours to the server. */
class Link {
  readonly number: number;
  readonly #client: Socket;
  readonly #target: PostgresTarget;
  readonly #onHeld: OnHeld;
  readonly #onClosed: () => void;
  readonly #asked = new Messages('client');
  readonly #statements = new Statements();
  /** Whole units that came while one was under way: a client may pipeline. */
  readonly #units: Unit[] = [];
  #upstream: Upstream | undefined;
  #startup: Buffer = Buffer.alloc(0);
  /** Of the unit that has not been closed by a Query or a Sync. */
  #open: Message[] = [];
  #orphan = false;
  #closed = false;
  /** The unit that the server works on. */
  #running: Unit | undefined;

  constructor(number: number, client: Socket, target: PostgresTarget, onHeld: OnHeld, onClosed: () => void) {
    this.number = number;
    this.#client = client;
    this.#target = target;
    this.#onHeld = onHeld;
    this.#onClosed = onClosed;
    client.setNoDelay(true);
    client.on('data', data => this.#fromClient(data));
    client.on('error', () => undefined);
    client.on('close', () => {
      // A request that was held goes with its connection, unless the consumer was killed and it is on its way.
      if (!this.#orphan) this.cut().catch(() => undefined);
    });
  }

  get backend(): number | undefined {
    return this.#closed ? undefined : this.#upstream?.backend;
  }

  get closed(): boolean {
    return this.#closed;
  }

  destroy(): void {
    this.#orphan = false;
    this.#client.destroy();
    this.#upstream?.socket.destroy();
    this.#close();
  }

  /** The client is dead, and the server has not noticed. */
  orphan(): void {
    this.#orphan = true;
    this.#client.destroy();
  }

  /** Resolves when the server has let go of everything that this connection had. */
  async cut(): Promise<void> {
    if (this.#closed) return this.#cutting;
    const upstream = this.#upstream;
    const busy = this.#running !== undefined;
    this.#orphan = false;
    this.#close();
    this.#client.destroy();
    this.#cutting = this.#letGo(upstream, busy);
    return this.#cutting;
  }

  #cutting: Promise<void> = Promise.resolve();

  async #letGo(upstream: Upstream | undefined, busy: boolean): Promise<void> {
    if (upstream === undefined) return;
    if (!busy && (await this.#target.upstreams.giveBack(upstream, this.#startup))) return;
    upstream.socket.destroy();
    this.#running?.lost();
    if (upstream.backend !== undefined) await this.#target.gone([upstream.backend]);
  }

  #close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#onClosed();
  }

  send(unit: Unit): void {
    this.#running = unit;
    // In one write: each is a switch to another process and back.
    this.#upstream!.write(Buffer.concat(unit.messages.map(message => message.bytes)));
  }

  /** Lets the client have what the server said; the next unit that has come is held then. */
  pass(replies: readonly Buffer[]): void {
    this.#client.write(Buffer.concat(replies));
    this.#units.shift();
    this.#announce();
  }

  #fromClient(data: Buffer): void {
    this.#asked.push(data);
    for (let message = this.#asked.next(); message !== undefined; message = this.#asked.next()) {
      if (message.type === '') this.#startUp(message);
      else if (this.#upstream?.loggedIn === true) this.#request(message);
      else this.#upstream!.write(message.bytes);
    }
  }

  #startUp(message: Message): void {
    const code = codeOf(message);
    // Encrypted, nothing could be read; a client that insists on it hears that the server has none.
    if (code === SSL_REQUEST || code === GSS_REQUEST) {
      this.#client.write('N');
      return;
    }
    if (code === CANCEL_REQUEST) {
      const side = this.#target.upstreams.open();
      side.write(message.bytes);
      side.socket.on('close', () => this.#client.end());
      return;
    }
    this.#asked.started();
    this.#startup = Buffer.from(message.bytes);
    const known = this.#target.upstreams.take(this.#startup);
    const upstream = known ?? this.#target.upstreams.open();
    this.#upstream = upstream;
    upstream.belongsTo(
      said => this.#fromServer(said),
      () => {
        this.#client.destroy();
        this.#running?.lost();
        this.#close();
      },
    );
    if (known === undefined) upstream.write(message.bytes);
    else this.#client.write(known.greeting());
  }

  #request(message: Message): void {
    const { type } = message;
    if (type === 'X') {
      this.cut().catch(() => undefined);
      return;
    }
    // The data of a COPY that the server has asked for.
    if (type === 'd' || type === 'c' || type === 'f') {
      this.#upstream!.write(message.bytes);
      return;
    }
    this.#open.push(message);
    // Describe and Flush without Execute: a client that wants to know the types first. The server says nothing of them
    // before it has read them, and the client sends nothing more before that.
    if (type === 'H' && !this.#open.some(one => one.type === 'E')) {
      this.#statements.textOf(this.#open);
      for (const one of this.#open) this.#upstream!.write(one.bytes);
      this.#open = [];
      return;
    }
    if (type !== 'Q' && type !== 'S' && type !== 'F') return;
    this.#units.push(new Unit(this, this.#open, this.#statements.textOf(this.#open)));
    this.#open = [];
    if (this.#units.length === 1) this.#announce();
  }

  #announce(): void {
    const [next] = this.#units;
    if (next !== undefined) this.#onHeld(next);
  }

  #fromServer(message: Message): void {
    const unit = this.#running;
    if (unit === undefined) {
      this.#client.write(message.bytes);
      return;
    }
    unit.heard(message);
    // The server wants the data of a COPY, which the client sends when it hears that.
    if (message.type === 'G' || message.type === 'W') for (const bytes of unit.takeReplies()) this.#client.write(bytes);
    if (message.type !== 'Z') return;
    this.#running = undefined;
    unit.done();
  }
}

/** Everything up to a Query or a Sync: what the server answers with one ReadyForQuery. */
class Unit implements Held {
  readonly place = 'postgres';
  readonly link: Link;
  readonly messages: readonly Message[];
  readonly text: string;
  readonly quiet: boolean;
  readonly #outcome = new Outcome();
  readonly #answered = Promise.withResolvers<Reply>();
  #replies: Buffer[] = [];

  constructor(link: Link, messages: readonly Message[], text: string) {
    this.link = link;
    // The buffers that they are slices of are reused by nobody, so nothing is copied.
    this.messages = messages;
    this.text = text;
    this.quiet = isQuiet(text);
  }

  get connection(): number {
    return this.link.number;
  }

  get backend(): number | undefined {
    return this.link.backend;
  }

  get gone(): boolean {
    return this.link.closed;
  }

  send(): Promise<Reply> {
    this.link.send(this);
    return this.#answered.promise;
  }

  answer(): void {
    this.link.pass(this.takeReplies());
  }

  abandon(): void {
    this.link.orphan();
  }

  cut(): Promise<void> {
    return this.link.cut();
  }

  async land(): Promise<Reply> {
    const reply = await this.send();
    await this.link.cut();
    return reply;
  }

  drop(): Promise<void> {
    return this.link.cut();
  }

  heard(message: Message): void {
    this.#replies.push(message.bytes);
    this.#outcome.add(message);
  }

  takeReplies(): readonly Buffer[] {
    const replies = this.#replies;
    this.#replies = [];
    return replies;
  }

  done(): void {
    const { text, failed } = this.#outcome;
    this.#answered.resolve({ text, failed });
  }

  /** The server closed the connection instead of an answer. */
  lost(): void {
    const text = this.#outcome.failed ? this.#outcome.text : 'connection closed';
    this.#answered.resolve({ text, failed: true });
  }
}
