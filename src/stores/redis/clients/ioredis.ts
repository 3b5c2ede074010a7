import { type Emitter, type RedisPort, watchErrors } from '../port.ts';

/** A `Redis` of the package `ioredis`, as far as we use it. */
export interface IoredisClient extends Emitter {
  readonly isCluster: boolean;
  call(command: string, args: string[]): Promise<unknown>;
  disconnect(reconnect?: boolean): void;
}

/** A `Cluster` of the package `ioredis`, as far as we use it. */
export interface IoredisClusterClient extends IoredisClient {
  nodes(role: 'master'): readonly Pick<IoredisClient, 'call'>[];
  pipeline(commands: string[][]): { exec(): Promise<readonly (readonly [Error | null, unknown])[] | null> };
}

/** The port of a `Redis` or a `Cluster` of the package `ioredis`, from version 5. */
export function ioredis(client: IoredisClient | IoredisClusterClient): RedisPort {
  return client.isCluster ? clusterPort(client as IoredisClusterClient) : singlePort(client);
}

function singlePort(client: IoredisClient): RedisPort {
  return {
    client: 'ioredis',
    cluster: false,
    send: (_, command) => call(client, command),
    info: async section => [String(await call(client, ['info', section]))],
    reconnect: () => client.disconnect(true),
    watch: () => watchErrors(client),
  };
}

function clusterPort(cluster: IoredisClusterClient): RedisPort {
  return {
    client: 'ioredis',
    cluster: true,
    send: (key, command) => (command[0] === 'WAIT' ? wait(cluster, key, command) : call(cluster, command)),
    info: section =>
      Promise.all(cluster.nodes('master').map(async node => String(await call(node, ['info', section])))),
    // A cluster client follows a failover itself: the demoted master answers MOVED, never READONLY.
    reconnect: () => undefined,
    watch: () => watchErrors(cluster),
  };
}

// In lower case: by that name ioredis knows which arguments are keys.
function call(client: Pick<IoredisClient, 'call'>, [name = '', ...args]: readonly string[]): Promise<unknown> {
  return client.call(name.toLowerCase(), args);
}

/** WAIT has no key, and ioredis would send it to any server; a pipeline goes where its first key is. */
async function wait(cluster: IoredisClusterClient, key: string, [, ...args]: readonly string[]): Promise<unknown> {
  const replies = await cluster
    .pipeline([
      ['exists', key],
      ['wait', ...args],
    ])
    .exec();
  const failed = replies?.find(([error]) => error !== null);
  if (failed !== undefined) throw failed[0];
  return replies?.[1]?.[1];
}
