import { createRequire, syncBuiltinESMExports } from 'node:module';
import { Socket } from 'node:net';

/**
 * Reports what the verifier cannot hold: connections to other places than its gates, and timers that the user's code waits
 * for. With one of them, that nothing was found says nothing.
 */
export function watchUngated(
  gated: readonly number[],
  report: (what: string) => void,
): { began(): void; ended(): void } {
  let handling = 0;
  const said = new Set<string>();
  const say = (what: string) => {
    if (said.has(what)) return;
    said.add(what);
    report(what);
  };
  const ports = new Set(gated);

  const { connect } = Socket.prototype;
  Socket.prototype.connect = function (this: Socket, ...args: unknown[]) {
    const where = placeOf(args);
    if (where !== undefined && !ports.has(where.port)) say(`a connection to ${where.host}:${where.port}`);
    return (connect as (...a: unknown[]) => Socket).apply(this, args);
  } as typeof connect;

  const timers = (name: string, original: (...args: never[]) => unknown, msAt: number) =>
    function (this: unknown, ...args: never[]) {
      const ms = Number(args[msAt] ?? 0);
      // Of the user's own code: what a client library sets for its own limits nobody waits for when all goes well.
      if (handling > 0 && ms >= 1) {
        const line = userLine(new Error().stack ?? '');
        if (line !== undefined) say(`a timer of ${ms} ms (${name} ${line})`);
      }
      return original.apply(this, args);
    };
  globalThis.setTimeout = Object.assign(
    timers('setTimeout', globalThis.setTimeout as never, 1),
    globalThis.setTimeout,
  ) as typeof setTimeout;
  const builtin = createRequire(import.meta.url)('node:timers/promises') as { setTimeout: unknown };
  builtin.setTimeout = timers('setTimeout', builtin.setTimeout as never, 0);
  syncBuiltinESMExports();

  return {
    began: () => void handling++,
    ended: () => void handling--,
  };
}

function placeOf(args: readonly unknown[]): { host: string; port: number } | undefined {
  const [first, second] = Array.isArray(args[0]) ? (args[0] as unknown[]) : args;
  const options =
    typeof first === 'object' && first !== null
      ? (first as { host?: string; port?: unknown; path?: string })
      : undefined;
  if (options?.path !== undefined) return { host: options.path, port: 0 };
  const port = Number(options?.port ?? first);
  if (!Number.isInteger(port)) return undefined;
  return { host: options?.host ?? (typeof second === 'string' ? second : 'localhost'), port };
}

const OWN = new URL('../../', import.meta.url).href;

/** The line of the code that called, unless that is Node's, a package's or our own. */
/** Where the user's own code is the caller's caller: neither a package of his, nor Node.js, nor the verifier. */
export function userLine(stack: string): string | undefined {
  const caller = stack
    .split('\n')
    .slice(2)
    .find(line => !line.includes('node:internal'));
  if (caller === undefined || caller.includes('node_modules') || caller.includes(OWN) || caller.includes('node:'))
    return undefined;
  const [, place] = /([^/\\]+:\d+):\d+\)?$/.exec(caller) ?? [];
  return place === undefined ? undefined : `at ${place}`;
}
