import { NevertwiceError } from '../../errors.ts';

// The first word of an error reply is its code by Redis's own convention; what follows it is for people.
const DOWN: ReadonlySet<string> = new Set([
  'READONLY', // a replica, since a failover
  'LOADING',
  'MASTERDOWN',
  'CLUSTERDOWN',
  'TRYAGAIN',
  'MOVED', // a cluster client follows these itself, and gives up after some
  'ASK',
  'OOM',
  'NOREPLICAS',
  'BUSY', // somebody's script runs for too long
  'UNKILLABLE',
  'MISCONF', // cannot write its disk
]);
const CONFIG: ReadonlySet<string> = new Set(['NOAUTH', 'WRONGPASS', 'NOPERM', 'DENIED', 'WRONGTYPE', 'CROSSSLOT']);

/** The code of an error reply of the server; undefined for what no server has said. */
export function replyCode(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  // Before version 7 the code of an error inside a script stands behind the place where it happened.
  const inScript = /^ERR Error running script .*?@user_script: ?\d+: -?([A-Z]+)\b/.exec(error.message);
  return (inScript ?? /^-?([A-Z]{2,})\b(?=\s|$)/.exec(error.message))?.[1];
}

/** What a failed command means: an error to reject with. `cluster` says whether the client follows redirections. */
export function storeError(error: unknown, cluster: boolean): unknown {
  if (error instanceof NevertwiceError || isMistake(error)) return error;
  const code = replyCode(error);
  if (code === undefined) return down(saidByClient(error), error);
  if (code === 'MOVED' && !cluster) {
    return new NevertwiceError(
      'NT_CONFIG',
      'this Redis is a cluster; give a cluster client: nodeRedisCluster(createCluster(…)) or ioredis(new Cluster(…))',
      { cause: withoutArguments(error) },
    );
  }
  if (DOWN.has(code) || refusedToConnect(error)) return down(code, error);
  if (!CONFIG.has(code)) return withoutArguments(error);
  return new NevertwiceError('NT_CONFIG', `Redis refuses what the store needs: ${code}`, {
    cause: withoutArguments(error),
  });
}

/** Wrong use of the client, by us or by its owner. Whatever else it says without a reply, the server was not reached. */
function isMistake(error: unknown): boolean {
  return error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError;
}

function down(what: string, cause: unknown): NevertwiceError {
  return new NevertwiceError('NT_STORE_DOWN', `Redis cannot be reached or cannot write now (${what})`, {
    cause: withoutArguments(cause),
  });
}

// The clients' own errors have classes and texts; those of the network have codes.
function saidByClient(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  const { code } = error as { code?: unknown };
  if (typeof code === 'string') return code;
  return error.constructor === Error ? error.message.split('\n', 1)[0]! : error.constructor.name;
}

// A server with too many clients says so with the common code ERR and hangs up: here the text is all there is.
function refusedToConnect(error: unknown): boolean {
  return error instanceof Error && /^-?ERR max number of clients/.test(error.message);
}

/** ioredis hangs the whole command on its error, and with it results and dead letters, which do not belong in a log. */
function withoutArguments(error: unknown): unknown {
  const { command } = (error ?? {}) as { command?: { name?: unknown; args?: unknown } };
  if (command?.args !== undefined) Object.assign(error as object, { command: { name: command.name } });
  return error;
}
