/**
 * What the store needs of a client, so that each client is one small file. Made by `nodeRedis`, `nodeRedisCluster` or
 * `ioredis`; a client of your own may implement it. The connection is the caller's: nothing here closes it.
 */
export interface RedisPort {
  /** For people: `ioredis`. */
  readonly client: string;
  /** True when keys are spread over servers by hash slot. */
  readonly cluster: boolean;
  /**
   * Sends one command, its name first, to the server of `key`, and resolves with the reply: text as string, integers as
   * number or decimal text, nothing as null, arrays of these. Commands for one key go through one connection, in order.
   * Rejects with the client's own error. A `signal` that aborts takes back what has not been sent, where the client can.
   */
  send(key: string, command: readonly string[], signal: AbortSignal | undefined): Promise<unknown>;
  /** The text of `INFO <section>` of every server that takes writes. */
  info(section: string, signal: AbortSignal | undefined): Promise<readonly string[]>;
  /** Exchanges the connection of `key` for a new one: its server takes no writes any more. Never rejects. */
  reconnect(key: string): void;
  /**
   * Makes sure that an `error` event of the client has a listener, since one without ends the process. Returns what
   * undoes it.
   */
  watch(): () => void;
}

/** The part of an event emitter that `watch` needs. */
export interface Emitter {
  listenerCount(event: string): number;
  on(event: 'error', listener: () => void): unknown;
  removeListener(event: 'error', listener: () => void): unknown;
}

export function watchErrors(client: Emitter): () => void {
  if (client.listenerCount('error') > 0) return () => undefined;
  // The error itself reaches whoever has a command under way; there is nobody to tell when the client is idle.
  const ignore = () => undefined;
  client.on('error', ignore);
  return () => client.removeListener('error', ignore);
}
