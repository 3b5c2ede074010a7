import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { isError } from '../proxies/redis-commands.ts';
import { Replies, type RespValue, requestOf } from '../proxies/redis-resp.ts';
import { VerifyError } from '../verify-error.ts';

/** Where a URL leads: `redis://user:password@host:port/1`. */
export interface RedisAddress {
  readonly host: string;
  readonly port: number;
  readonly auth: readonly string[] | undefined;
  readonly database: number;
}

export function addressOf(text: string): RedisAddress {
  const url = URL.parse(text);
  const database = Number(url?.pathname.slice(1) ?? 0);
  if (url?.protocol !== 'redis:' || url.hostname === '' || !Number.isInteger(database)) {
    throw new VerifyError('--redis must be a URL as redis://localhost:6379/1: requests in TLS cannot be held');
  }
  const [user, password] = [decodeURIComponent(url.username), decodeURIComponent(url.password)];
  return {
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: Number(url.port || 6379),
    auth: password === '' ? undefined : ['AUTH', ...(user === '' ? [] : [user]), password],
    database,
  };
}

/** As much of a client as is needed to look after a server. */
export class RedisClient {
  readonly #socket: Socket;
  readonly #said = new Replies();
  readonly #waiting: PromiseWithResolvers<RespValue>[] = [];

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.on('data', data => {
      this.#said.push(data);
      for (let reply = this.#said.next(); reply !== undefined; reply = this.#said.next()) {
        const { value } = reply;
        const waiting = this.#waiting.shift();
        if (isError(value)) waiting?.reject(new VerifyError(`Redis cannot be used: ${value.text}`));
        else waiting?.resolve(value);
      }
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      for (const waiting of this.#waiting.splice(0)) waiting.reject(new VerifyError('Redis has closed the connection'));
    });
  }

  /** @throws VerifyError */
  static async connect({ host, port, auth, database }: RedisAddress): Promise<RedisClient> {
    const socket = connect({ host, port });
    try {
      await once(socket, 'connect');
    } catch (error) {
      throw new VerifyError(`Redis cannot be reached at ${host}:${port}: ${(error as Error).message}`, {
        cause: error,
      });
    }
    const client = new RedisClient(socket);
    try {
      if (auth !== undefined) await client.ask(...auth);
      await client.ask('SELECT', String(database));
    } catch (error) {
      client.close();
      throw error;
    }
    return client;
  }

  /** @throws VerifyError for an error reply */
  ask(...args: readonly (string | Buffer)[]): Promise<RespValue> {
    const waiting = Promise.withResolvers<RespValue>();
    if (this.#socket.destroyed) waiting.reject(new VerifyError('Redis has closed the connection'));
    else {
      this.#waiting.push(waiting);
      this.#socket.write(requestOf(args));
    }
    return waiting.promise;
  }

  close(): void {
    this.#socket.destroy();
  }
}
