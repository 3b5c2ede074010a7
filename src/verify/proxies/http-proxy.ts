import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Gate, Held, OnHeld, Reply } from '../gate.ts';
import { oneLine } from './one-line.ts';

export interface HttpRequest {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

export interface HttpResponse {
  readonly status: number;
  readonly type: string;
  readonly body: string;
}

const LINE = 160;

/** A server that holds each request until it is decided about; there is nothing behind it but `carryOut`. */
export async function httpProxy(carryOut: (request: HttpRequest) => HttpResponse, onHeld: OnHeld): Promise<Gate> {
  const sockets = new Map<Socket, number>();
  let opened = 0;
  let refusing = false;
  const server = createServer((incoming, outgoing) => {
    void bodyOf(incoming).then(body => {
      // Half a request is none.
      if (body === undefined) return;
      const { method = 'GET', url: path = '/', headers, socket } = incoming;
      const number = sockets.get(socket) ?? 0;
      onHeld(new Exchange(number, { method, path, headers, body }, outgoing, socket, carryOut));
    });
  });
  // A connection that the server closes by itself, just when a request comes, would be a fault that nobody chose.
  server.keepAliveTimeout = 0;
  server.requestTimeout = 0;
  server.headersTimeout = 0;
  server.on('connection', socket => {
    if (refusing) {
      socket.destroy();
      return;
    }
    socket.setNoDelay(true);
    sockets.set(socket, ++opened);
    socket.on('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const end = async () => {
    // A request that was read whole needs no connection to be carried out later.
    for (const socket of sockets.keys()) socket.destroy();
  };
  return {
    port: (server.address() as { port: number }).port,
    backends: [],
    reopen() {
      refusing = false;
    },
    sever() {
      refusing = true;
      return end();
    },
    async close() {
      server.close();
      await end();
    },
  };
}

async function bodyOf(incoming: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
  } catch {
    return undefined;
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** A request with its answer. */
class Exchange implements Held {
  readonly place = 'http';
  readonly quiet = false;
  readonly connection: number;
  readonly text: string;
  readonly #request: HttpRequest;
  readonly #outgoing: ServerResponse;
  readonly #socket: Socket;
  readonly #carryOut: (request: HttpRequest) => HttpResponse;
  #response: HttpResponse | undefined;

  constructor(
    connection: number,
    request: HttpRequest,
    outgoing: ServerResponse,
    socket: Socket,
    carryOut: (request: HttpRequest) => HttpResponse,
  ) {
    this.connection = connection;
    this.#request = request;
    this.#outgoing = outgoing;
    this.#socket = socket;
    this.#carryOut = carryOut;
    const key = keyOf(request);
    const { method, path, body } = request;
    this.text = oneLine(`${method} ${path} ${body}${key === null ? '' : ` (key ${key})`}`, LINE);
    outgoing.on('error', () => undefined);
  }

  get gone(): boolean {
    return this.#socket.destroyed;
  }

  async send(): Promise<Reply> {
    this.#response = this.#carryOut(this.#request);
    const { status } = this.#response;
    return { text: String(status), failed: status >= 400 };
  }

  answer(): void {
    const { status, type, body } = this.#response!;
    const empty = status === 204 || status === 304;
    this.#outgoing.writeHead(status, empty ? {} : { 'content-type': type, 'content-length': Buffer.byteLength(body) });
    this.#outgoing.end(empty || this.#request.method === 'HEAD' ? '' : body);
  }

  async cut(): Promise<void> {
    this.#socket.destroy();
  }

  land(): Promise<Reply> {
    return this.send();
  }

  async drop(): Promise<void> {
    this.#socket.destroy();
  }
}

/** What says that a request is the same as an earlier one. */
export function keyOf({ headers }: HttpRequest): string | null {
  const key = headers['idempotency-key'];
  return (Array.isArray(key) ? key[0] : key) ?? null;
}
