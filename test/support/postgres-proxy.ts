import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/**
 * A link to PostgreSQL that breaks on demand. It reads the client's half of the protocol, so that it can act exactly at
 * a COMMIT, and passes everything else on as it comes.
 */
export interface PostgresProxy {
  /** The server's URL by way of the proxy. */
  readonly url: string;
  /** Connections that clients have opened so far. */
  readonly opened: number;
  /** Acts on the next COMMIT, once. */
  atNextCommit(fault: CommitFault): Promise<HeldCommit>;
  /** Half-open from now on: nothing passes either way, new connections included, and nothing is closed. */
  stall(): void;
  /** The connections of now are half-open for good; new ones work. So it is when a firewall forgets what it knew. */
  silence(): void;
  /** Ends `stall`: what waited passes. */
  resume(): void;
  close(): Promise<void>;
}

/**
 * - `cut`: the connection breaks before the server has seen the COMMIT.
 * - `drop-reply`: the server has committed, and the connection breaks before the client hears of it.
 * - `hold`: the COMMIT stays in the link. The server waits in the open transaction until it is let through or dropped,
 *   also when the client has gone.
 * - `pass-and-cut`: the server gets the COMMIT, and the client's connection breaks while the server works on it.
 */
export type CommitFault = 'cut' | 'drop-reply' | 'hold' | 'pass-and-cut';

/** A COMMIT on which the proxy acted. */
export interface HeldCommit {
  readonly clientIsOpen: boolean;
  /** Breaks the client's connection and keeps the server's. */
  cutClient(): void;
  /** Sends the COMMIT on. Resolves when the server said that it had committed. */
  letThrough(): Promise<void>;
  /** Closes the server's connection without the COMMIT. */
  drop(): void;
}

interface Armed {
  readonly fault: CommitFault;
  resolve(held: HeldCommit): void;
}

export async function postgresProxy(serverUrl: string): Promise<PostgresProxy> {
  const target = new URL(serverUrl);
  const links = new Set<Link>();
  const all = new Set<Link>();
  const armed: Armed[] = [];
  let stalled = false;
  let opened = 0;

  const server = createServer(client => {
    opened++;
    const upstream = connect({ port: Number(target.port), host: target.hostname, allowHalfOpen: true });
    const link = new Link(client, upstream, armed);
    links.add(link);
    all.add(link);
    if (stalled) link.stall();
    link.whenClosed(() => {
      links.delete(link);
      all.delete(link);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = new URL(serverUrl);
  url.hostname = '127.0.0.1';
  url.port = String((server.address() as { port: number }).port);

  return {
    url: url.href,
    get opened() {
      return opened;
    },
    atNextCommit: fault => new Promise(resolve => armed.push({ fault, resolve })),
    stall() {
      stalled = true;
      for (const link of links) link.stall();
    },
    silence() {
      for (const link of links) link.stall();
      links.clear();
    },
    resume() {
      stalled = false;
      for (const link of links) link.resume();
    },
    async close() {
      server.close();
      for (const link of all) link.destroy();
      await once(server, 'close');
    },
  };
}

const COMMITTED = Buffer.from('COMMIT\0');

/** One client's connection and the server's behind it. */
class Link {
  readonly #client: Socket;
  readonly #upstream: Socket;
  readonly #armed: Armed[];
  #unread = Buffer.alloc(0);
  #started = false;
  /** Set once a COMMIT was acted on: from then on each side ends by itself. */
  #severed = false;
  #onReply: ((reply: Buffer) => void) | undefined;

  constructor(client: Socket, upstream: Socket, armed: Armed[]) {
    this.#client = client;
    this.#upstream = upstream;
    this.#armed = armed;
    client.on('data', data => this.#fromClient(data));
    upstream.on('data', data => {
      if (this.#onReply !== undefined) this.#onReply(data);
      else client.write(data);
    });
    // Whichever side ends takes the other with it, as a link of two cables would.
    client.on('close', () => this.#severed || upstream.destroy());
    upstream.on('close', () => client.destroy());
    upstream.on('end', () => this.#severed || client.end());
    client.on('error', () => undefined);
    upstream.on('error', () => undefined);
  }

  whenClosed(done: () => void): void {
    this.#upstream.once('close', done);
  }

  stall(): void {
    this.#client.pause();
    this.#upstream.pause();
  }

  resume(): void {
    this.#client.resume();
    this.#upstream.resume();
  }

  destroy(): void {
    this.#client.destroy();
    this.#upstream.destroy();
  }

  #fromClient(data: Buffer): void {
    this.#unread = Buffer.concat([this.#unread, data]);
    for (let message = this.#next(); message !== undefined; message = this.#next()) {
      const armed = isCommit(message) ? this.#armed.shift() : undefined;
      if (armed === undefined) this.#upstream.write(message);
      else this.#act(armed, message);
    }
  }

  /** The next whole message. The first one has no type byte: it is the start-up packet. */
  #next(): Buffer | undefined {
    const head = this.#started ? 1 : 0;
    if (this.#unread.length < head + 4) return undefined;
    const length = head + this.#unread.readUInt32BE(head);
    if (this.#unread.length < length) return undefined;
    const message = this.#unread.subarray(0, length);
    this.#unread = this.#unread.subarray(length);
    this.#started = true;
    return message;
  }

  #act({ fault, resolve }: Armed, commit: Buffer): void {
    const committed = () =>
      new Promise<void>(done => {
        this.#onReply = reply => {
          if (reply.includes(COMMITTED)) done();
        };
        this.#upstream.write(commit);
      });
    const client = this.#client;
    const held: HeldCommit = {
      get clientIsOpen() {
        return !client.destroyed;
      },
      cutClient: () => client.destroy(),
      drop: () => this.#upstream.destroy(),
      async letThrough() {
        await committed();
        held.drop();
      },
    };
    this.#severed = true;
    if (fault === 'cut') this.destroy();
    if (fault === 'drop-reply') {
      void committed().then(() => {
        this.destroy();
        resolve(held);
      });
      return;
    }
    if (fault === 'pass-and-cut') {
      void committed().then(held.drop);
      held.cutClient();
    }
    resolve(held);
  }
}

/** COMMIT alone, or at the end of a text with other statements. */
function isCommit(message: Buffer): boolean {
  return message[0] === 0x51 && /(?:^|\n)COMMIT$/.test(message.toString('latin1', 5, message.length - 1));
}
