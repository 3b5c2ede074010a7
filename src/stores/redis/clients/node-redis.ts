import { type Emitter, type RedisPort, watchErrors } from '../port.ts';

interface CommandOptions {
  readonly abortSignal?: AbortSignal;
  readonly typeMapping?: object;
}

/** A client of the package `redis` (`createClient`), as far as we use it. Not a pool: WAIT needs one connection. */
export interface NodeRedisClient extends Emitter {
  readonly isReady: boolean;
  sendCommand(args: readonly string[], options?: CommandOptions): Promise<unknown>;
}

/** A cluster client of the package `redis` (`createCluster`), as far as we use it. */
export interface NodeRedisClusterClient extends Emitter {
  readonly masters: readonly any[];
  nodeClient(node: any): unknown;
  sendCommand(
    firstKey: string | undefined,
    isReadonly: boolean | undefined,
    args: string[],
    options?: CommandOptions,
  ): Promise<unknown>;
}

// The caller may have chosen Buffers for replies; ours are text.
const options = (abortSignal: AbortSignal | undefined): CommandOptions => ({
  typeMapping: {},
  ...(abortSignal === undefined ? {} : { abortSignal }),
});

/** The port of a `createClient()` of the package `redis`, from version 5. Call its `connect()` yourself. */
export function nodeRedis(client: NodeRedisClient): RedisPort {
  return {
    client: 'node-redis',
    cluster: false,
    send: (_, command, signal) => client.sendCommand(command, options(signal)),
    info: async (section, signal) => [String(await client.sendCommand(['INFO', section], options(signal)))],
    // There is no other way to make this client reconnect and keep what it is asked to do: after QUIT the server first
    // answers everything sent before, then closes, and the client comes back by its own strategy.
    reconnect: () => void client.sendCommand(['QUIT']).catch(() => undefined),
    watch: () => watchErrors(client),
  };
}

/** The port of a `createCluster()` of the package `redis`, from version 5. Call its `connect()` yourself. */
export function nodeRedisCluster(cluster: NodeRedisClusterClient): RedisPort {
  return {
    client: 'node-redis',
    cluster: true,
    send: (key, command, signal) => cluster.sendCommand(key, false, [...command], options(signal)),
    info: (section, signal) =>
      Promise.all(
        cluster.masters.map(async node => {
          const client = (await cluster.nodeClient(node)) as NodeRedisClient;
          return String(await client.sendCommand(['INFO', section], options(signal)));
        }),
      ),
    // A cluster client follows a failover itself: the demoted master answers MOVED, never READONLY.
    reconnect: () => undefined,
    watch: () => watchErrors(cluster),
  };
}
