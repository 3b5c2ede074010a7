import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import type { Gate, Held, OnHeld, Reply } from '../gate.ts';
import { isQuiet, isSubscribe, mayBlock, nameOf, replyOf, textOf } from './redis-commands.ts';
import { Replies, Requests, type RespValue, requestOf } from './redis-resp.ts';

export interface RedisTarget {
  readonly host: string;
  readonly port: number;
  /** AUTH, where the server wants one. */
  readonly auth: readonly string[] | undefined;
  /** Resolves when the server has none of these clients any more. */
  gone(clients: readonly string[]): Promise<void>;
  /** True when the server lets this client wait, as BLPOP does. */
  waits(client: string): Promise<boolean>;
}

/** In front of a Redis: every command is held until it is decided about. */
export async function redisProxy(target: RedisTarget, onHeld: OnHeld): Promise<Gate> {
  const links = new Set<Link>();
  let opened = 0;
  const door: Door = { shut: false };
  const server = createServer(client => {
    const link = new Link(++opened, client, target, door, onHeld);
    links.add(link);
    link.whenClosed(() => links.delete(link));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const linksOf = (held: readonly Held[]) => new Set(held.flatMap(one => (one instanceof Command ? [one.link] : [])));
  return {
    port: (server.address() as { port: number }).port,
    // Of PostgreSQL, to ask for locks.
    backends: [],
    reopen() {
      door.shut = false;
    },
    async sever(kept) {
      door.shut = true;
      const keeping = linksOf(kept);
      for (const link of keeping) link.orphan();
      const closing = [...links].filter(link => !keeping.has(link) && !link.refuseAll());
      await Promise.all(closing.map(link => link.cut()));
    },
    async close(kept = []) {
      server.close();
      const keeping = linksOf(kept);
      for (const link of links) if (!keeping.has(link)) link.destroy();
    },
  };
}

/**
 * Shut, a consumer is cut off: each of its commands fails at once, and the server hears of none. It keeps its connections: a
 * client that has lost one takes its time before it fails.
 */
interface Door {
  shut: boolean;
}

const REFUSED = Buffer.from('-ERR this consumer has been cut off\r\n');

/** One connection of the consumer, and ours to the server. */
class Link {
  readonly number: number;
  /** What the server calls it. */
  client: string | undefined;
  readonly target: RedisTarget;
  readonly #client: Socket;
  readonly #upstream: Socket;
  readonly #door: Door;
  readonly #onHeld: OnHeld;
  readonly #asked = new Requests();
  readonly #said = new Replies();
  /** What has come and was not answered, oldest first: a client may pipeline. */
  readonly #commands: Command[] = [];
  /** Of a MULTI that has not been closed. */
  #queued: string[] | undefined;
  #orphan = false;
  /** The server sends what it likes from now on, and nothing can be told apart. */
  #transparent = false;
  #resp3 = false;
  #watches = false;
  /** Replies to come for what was asked here and not by the client. */
  #own: number;

  constructor(number: number, client: Socket, target: RedisTarget, door: Door, onHeld: OnHeld) {
    this.number = number;
    this.target = target;
    this.#client = client;
    this.#upstream = connect({ host: target.host, port: target.port });
    this.#door = door;
    this.#onHeld = onHeld;
    client.on('data', data => this.#guarded(() => this.#fromClient(data)));
    this.#upstream.on('data', data => this.#guarded(() => this.#fromServer(data)));
    client.on('error', () => undefined);
    this.#upstream.on('error', () => undefined);
    client.on('close', () => {
      // A command that was held goes with its connection, unless the consumer was killed and it is on its way.
      if (!this.#orphan) this.#upstream.destroy();
    });
    this.#upstream.on('close', () => {
      client.destroy();
      for (const command of this.#commands) command.lost();
    });
    client.setNoDelay(true);
    this.#upstream.setNoDelay(true);
    // Before the client says anything, so that the server's name for this connection is known from the start.
    if (target.auth !== undefined) this.#upstream.write(requestOf(target.auth));
    this.#upstream.write(requestOf(['CLIENT', 'ID']));
    this.#own = target.auth === undefined ? 1 : 2;
  }

  get closed(): boolean {
    return this.#upstream.destroyed;
  }

  whenClosed(done: () => void): void {
    this.#upstream.once('close', done);
  }

  destroy(): void {
    this.#orphan = false;
    this.#client.destroy();
    this.#upstream.destroy();
  }

  /** The client is dead, and the server has not noticed. */
  orphan(): void {
    this.#orphan = true;
    this.#client.destroy();
  }

  async cut(): Promise<void> {
    this.destroy();
    if (this.client !== undefined) await this.target.gone([this.client]);
  }

  send(command: Command): void {
    command.sent = true;
    if (nameOf(command.args) === 'WATCH') this.#watches = true;
    this.#upstream.write(command.bytes);
  }

  /** The door is shut. False where the server is at a command or keeps something for this connection: then it must go. */
  refuseAll(): boolean {
    const [command] = this.#commands;
    if (this.#watches || this.#transparent || (command?.sent === true && !command.quiet)) return false;
    if (command !== undefined && !command.sent) this.#refuse(command);
    return true;
  }

  #refuse(command: Command): void {
    if (nameOf(command.args) !== 'EXEC') {
      this.pass(command, REFUSED);
      return;
    }
    // The server has what was queued, and must let go of it.
    command.refused = true;
    this.#upstream.write(requestOf(['DISCARD']));
  }

  /** Lets the client have a reply; the next command that has come is held then. */
  pass(command: Command, reply: Buffer): void {
    this.#client.write(reply);
    this.#commands.splice(this.#commands.indexOf(command), 1);
    this.#next();
  }

  /** What was pipelined behind a command. */
  behind(command: Command): readonly Command[] {
    return this.#commands.slice(this.#commands.indexOf(command) + 1);
  }

  /** What is not RESP ends its connection, as Redis itself does it. */
  #guarded(work: () => void): void {
    try {
      work();
    } catch {
      this.destroy();
    }
  }

  #fromClient(data: Buffer): void {
    if (this.#transparent) {
      this.#upstream.write(data);
      return;
    }
    this.#asked.push(data);
    for (let request = this.#asked.next(); request !== undefined; request = this.#asked.next()) {
      const { value: args, bytes } = request;
      // Empty lines get no reply.
      if (args.length === 0) continue;
      this.#commands.push(this.#commandOf(args, bytes));
      if (this.#commands.length === 1) this.#next();
    }
  }

  #commandOf(args: readonly Buffer[], bytes: Buffer): Command {
    const name = nameOf(args);
    const queued = this.#queued;
    if (name === 'MULTI') this.#queued = [];
    else if (name === 'EXEC' || name === 'DISCARD' || name === 'RESET') this.#queued = undefined;
    else queued?.push(textOf(args));
    if (name === 'EXEC') return new Command(this, args, bytes, ['MULTI', ...(queued ?? []), 'EXEC'].join('; '), false);
    // Until EXEC the server only takes note of them.
    return new Command(this, args, bytes, textOf(args), queued !== undefined || isQuiet(args));
  }

  #next(): void {
    const [command] = this.#commands;
    if (command === undefined) return;
    if (!command.quiet) {
      // What a dead consumer has sent lands with the command that it is behind of.
      if (this.#orphan) return;
      if (this.#door.shut) this.#refuse(command);
      else this.#onHeld(command);
      return;
    }
    this.send(command);
    const subscribes = isSubscribe(command.args) && this.#queued === undefined;
    if (subscribes && this.#resp3) {
      // Its answer is a push.
      this.#commands.shift();
      command.passed();
      this.#next();
    } else if (subscribes || nameOf(command.args) === 'MONITOR') {
      this.#transparent = true;
      for (const other of this.#commands.splice(0)) {
        if (other !== command) this.send(other);
        other.passed();
      }
      this.#upstream.write(this.#asked.rest());
    }
  }

  #fromServer(data: Buffer): void {
    this.#said.push(data);
    for (let reply = this.#said.next(); reply !== undefined; reply = this.#said.next()) {
      const { value, bytes } = reply;
      if (this.#own > 0) {
        this.#own--;
        this.client = value.text.toString();
      } else if (this.#transparent || value.type === '>') this.#client.write(bytes);
      else this.#reply(value, bytes);
    }
  }

  #reply(value: RespValue, bytes: Buffer): void {
    const [command] = this.#commands;
    if (command === undefined) this.#client.write(bytes);
    else if (command.quiet) {
      if (nameOf(command.args) === 'HELLO') this.#resp3 = value.type === '%';
      command.heard(value, bytes);
      this.pass(command, bytes);
    } else if (command.refused) this.pass(command, REFUSED);
    else command.heard(value, bytes);
  }
}

const WAITING: Reply = { text: '(waits)', failed: false };
const ASK_AGAIN_MS = 2;

class Command implements Held {
  readonly place = 'redis';
  readonly link: Link;
  readonly args: readonly Buffer[];
  readonly bytes: Buffer;
  readonly text: string;
  readonly quiet: boolean;
  readonly #replied = Promise.withResolvers<Reply>();
  sent = false;
  /** DISCARD was sent instead of it. */
  refused = false;
  #reply: Buffer | undefined;
  /** It was answered while it waited: the reply goes on as soon as there is one. */
  #answered = false;

  constructor(link: Link, args: readonly Buffer[], bytes: Buffer, text: string, quiet: boolean) {
    this.link = link;
    this.args = args;
    this.bytes = bytes;
    this.text = text;
    this.quiet = quiet;
  }

  get connection(): number {
    return this.link.number;
  }

  get gone(): boolean {
    return this.link.closed;
  }

  send(): Promise<Reply> {
    this.link.send(this);
    return mayBlock(this.args) ? this.#replyOrWait() : this.#replied.promise;
  }

  answer(): void {
    this.#answered = true;
    if (this.#reply !== undefined) this.link.pass(this, this.#reply);
  }

  cut(): Promise<void> {
    return this.link.cut();
  }

  async land(): Promise<Reply> {
    const behind = this.link.behind(this);
    let { text, failed } = await this.send();
    this.answer();
    // They were sent together, and nothing holds them back any more.
    for (const command of behind) {
      if (text === WAITING.text) break;
      if (command.quiet) {
        // It goes by itself when it is its turn.
        await command.#replied.promise;
        continue;
      }
      const reply = await command.send();
      command.answer();
      text += `, then ${command.text} → ${reply.text}`;
      failed ||= reply.failed;
    }
    await this.link.cut();
    return { text, failed };
  }

  drop(): Promise<void> {
    return this.link.cut();
  }

  heard(value: RespValue, bytes: Buffer): void {
    this.#reply = bytes;
    this.#replied.resolve(replyOf(value));
    if (this.#answered && !this.quiet) this.link.pass(this, bytes);
  }

  /** It was sent, and its reply cannot be told from what else the server sends. */
  passed(): void {
    this.#replied.resolve({ text: '', failed: false });
  }

  /** The server closed the connection instead of an answer. */
  lost(): void {
    this.#replied.resolve({ text: 'connection closed', failed: true });
  }

  /** Others may have to act before there is a reply, so that nobody must wait for it here. */
  async #replyOrWait(): Promise<Reply> {
    let reply: Reply | undefined;
    void this.#replied.promise.then(value => {
      reply = value;
    });
    for (;;) {
      await new Promise(resolve => setTimeout(resolve, ASK_AGAIN_MS));
      if (reply !== undefined) return reply;
      const { client, target } = this.link;
      if (client !== undefined && (await target.waits(client)) && reply === undefined) return WAITING;
    }
  }
}
