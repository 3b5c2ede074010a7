import { failureCode } from '../../../core/failures.ts';
import { NevertwiceError } from '../../../errors.ts';
import type { Row } from '../driver.ts';
import type { Statement } from '../statements.ts';
import { inTurn } from './turns.ts';

/** What we call on a `pg` client. */
export interface PgClientLike {
  query(text: string): Promise<{ rows: Row[]; command?: string }>;
  query(config: { text: string; name?: string; values: unknown[] }): Promise<{ rows: Row[]; command?: string }>;
  release(error?: unknown): void;
  on(event: 'error' | 'end', listener: (error?: unknown) => void): unknown;
  removeListener(event: 'error' | 'end', listener: (error?: unknown) => void): unknown;
  readonly pipeline?: boolean;
  readonly processID?: number | null;
  readonly connection?: { readonly stream?: { destroy(): unknown } };
}

export interface PgPoolLike {
  connect(): Promise<PgClientLike>;
  readonly options?: { readonly max?: number; readonly pipeline?: boolean };
  readonly totalCount?: number;
  readonly idleCount?: number;
  readonly Client?: new (options: any) => unknown;
  on?(event: 'error', listener: (error: unknown) => void): unknown;
}

/** A client while it is ours. */
export interface CheckedOut {
  readonly client: PgClientLike;
  /** Why the connection is gone, once it is. */
  readonly lost: unknown;
  release(): void;
  destroy(): void;
}

const seen = new WeakSet<PgClientLike>();

/** Takes a client within `timeoutMs`; rejects with NT_STORE_DOWN otherwise. A client that comes later goes straight back. */
export async function acquire(pool: PgPoolLike, timeoutMs: number): Promise<CheckedOut> {
  const pending = pool.connect();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>(resolve => {
    timer = setTimeout(resolve, timeoutMs, undefined);
  });
  let client: PgClientLike | undefined;
  try {
    client = await Promise.race([pending, late]);
  } catch (error) {
    const code = failureCode(error);
    // A wrong password or database is no outage that passes by itself, but it must not burn attempts either.
    // Without a code it is the pool's own time limit.
    throw new NevertwiceError(
      'NT_STORE_DOWN',
      `cannot connect to PostgreSQL${code === undefined ? poolState(pool) : ` (${code})`}`,
      { cause: error },
    );
  } finally {
    clearTimeout(timer);
  }
  if (client === undefined) {
    pending.then(
      c => c.release(),
      () => undefined,
    );
    throw new NevertwiceError(
      'NT_STORE_DOWN',
      `no connection within ${timeoutMs} ms${poolState(pool)}; raise the pool's max or lower concurrency`,
    );
  }
  return checkedOut(client);
}

function poolState(pool: PgPoolLike): string {
  const { totalCount, idleCount, options } = pool;
  if (totalCount === undefined || idleCount === undefined || options?.max === undefined) return '';
  return ` (pool ${options.max}, in use ${totalCount - idleCount})`;
}

function checkedOut(client: PgClientLike): CheckedOut {
  let lost: { reason: unknown } | undefined;
  // A checked-out client without a listener takes the whole process down when the server hangs up. The first reason is
  // the server's own word; the driver's "terminated unexpectedly", which has no code, follows it.
  const onError = (error?: unknown) => {
    if (lost === undefined || (failureCode(lost.reason) === undefined && failureCode(error) !== undefined))
      lost = { reason: error };
  };
  client.on('error', onError);
  client.on('end', onError);
  const forget = () => {
    client.removeListener('error', onError);
    client.removeListener('end', onError);
  };
  if (!seen.has(client)) {
    seen.add(client);
    keepAlive(client);
  }
  return {
    client,
    get lost() {
      return lost === undefined ? undefined : (lost.reason ?? new Error('connection ended'));
    },
    release() {
      forget();
      client.release(lost === undefined ? undefined : true);
    },
    destroy() {
      // The socket's error may arrive after the release; the pool listens again from then on.
      client.release(true);
      // A pipelined client that still waits for an answer would keep the socket, and with it this process, until it comes.
      client.connection?.stream?.destroy();
      forget();
    },
  };
}

/**
 * Once per connection: let the server notice within about a minute that this process is gone, or the claims of a
 * machine that lost its power stay locked for the two hours of the kernel's default. Refused settings do no harm.
 */
function keepAlive(client: PgClientLike): void {
  const settings =
    "SELECT set_config('tcp_keepalives_idle','30',false), set_config('tcp_keepalives_interval','10',false), set_config('tcp_keepalives_count','3',false)";
  inTurn(client, () => client.query(settings)).catch(() => undefined);
}

/** Runs a statement; kept prepared on the server when it has a name and `generation`, which tells names apart, is given. */
export async function queryOn(
  client: PgClientLike,
  statement: Statement,
  generation: number | undefined,
): Promise<readonly Row[]> {
  const { text, name } = statement;
  const values = statement.values as unknown[];
  const reply = await inTurn(client, () => {
    if (values.length === 0) return client.query(text);
    if (generation === undefined || name === '') return client.query({ text, values });
    return client.query({ text, values, name: generation === 0 ? name : `${name}_${generation}` });
  });
  return reply.rows;
}

// Parsing literals costs more than a round trip saves once a batch has dozens of ids.
const INLINE_LIMIT = 2_048;

/**
 * The statement with its values as literals, for one text together with BEGIN; undefined when it is too long or holds a
 * value that is not plain hex or digits, which is all that can be put into text without quoting rules.
 */
export function inlined(statement: Statement): string | undefined {
  if (statement.values.some(value => value !== null && !/^[0-9a-f,]*$/.test(String(value)))) return undefined;
  if (statement.values.reduce<number>((sum, value) => sum + String(value).length, 0) > INLINE_LIMIT) return undefined;
  // Quoted names are passed over: a table may be called "a$1".
  return statement.text.replace(/"(?:[^"]|"")*"|\$(\d+)/g, (all, n) => {
    if (n === undefined) return all;
    const value = statement.values[Number(n) - 1];
    return value === null ? 'NULL' : `'${value}'`;
  });
}
