import { NevertwiceError } from '../../../errors.ts';
import type { Row } from '../driver.ts';
import type { Statement } from '../statements.ts';
import type { PgPoolLike } from './pg-connection.ts';
import { within } from './reply.ts';

interface AsideClient {
  connect(): Promise<unknown>;
  query(config: { text: string; values: unknown[] }): Promise<{ rows: Row[] }>;
  end(): Promise<unknown>;
  on(event: 'error' | 'end', listener: () => void): unknown;
  readonly connection?: { readonly stream?: { destroy(): unknown; ref?(): unknown; unref?(): unknown } };
}

/** Nobody has asked for so long: the connection is given back to the server. */
const IDLE_MS = 10_000;

/**
 * One connection beside the pool and with its settings, opened when it is asked for: what runs on it waits for no handler, and
 * takes no connection that a handler waits for. It keeps no process alive.
 */
export class PgAside {
  readonly #pool: PgPoolLike;
  readonly #replyTimeoutMs: number;
  #client: Promise<AsideClient> | undefined;
  #running = 0;
  #idle: NodeJS.Timeout | undefined;

  constructor(pool: PgPoolLike, replyTimeoutMs: number) {
    this.#pool = pool;
    this.#replyTimeoutMs = replyTimeoutMs;
  }

  /** @throws NT_STORE_DOWN without a connection or an answer, and what the server says */
  async query({ text, values }: Statement): Promise<readonly Row[]> {
    clearTimeout(this.#idle);
    this.#client ??= this.#connect();
    const opening = this.#client;
    this.#running++;
    let client: AsideClient | undefined;
    try {
      client = await opening;
      client.connection?.stream?.ref?.();
      return (await within(this.#replyTimeoutMs, client.query({ text, values: [...values] }))).rows;
    } catch (error) {
      // Refused by the server, it answers still; anything else, and a new connection is as good as this one can become.
      if (typeof (error as { severity?: unknown }).severity !== 'string') this.#drop(opening, client);
      throw error;
    } finally {
      if (--this.#running === 0) this.#rest(client);
    }
  }

  async #connect(): Promise<AsideClient> {
    const Client = this.#pool.Client!;
    const client = new Client({ ...this.#pool.options, pipeline: false }) as AsideClient;
    const gone = () => {
      this.#client = undefined;
    };
    client.on('error', gone);
    client.on('end', gone);
    try {
      await within(this.#replyTimeoutMs, client.connect());
    } catch (error) {
      this.#client = undefined;
      client.connection?.stream?.destroy();
      throw new NevertwiceError('NT_STORE_DOWN', 'the ledger of effects cannot connect to PostgreSQL', {
        cause: error,
      });
    }
    return client;
  }

  #drop(opening: Promise<AsideClient>, client: AsideClient | undefined): void {
    if (this.#client === opening) this.#client = undefined;
    client?.connection?.stream?.destroy();
  }

  #rest(client: AsideClient | undefined): void {
    client?.connection?.stream?.unref?.();
    this.#idle = setTimeout(() => {
      const closing = this.#client;
      this.#client = undefined;
      closing?.then(idle => idle.end()).catch(() => undefined);
    }, IDLE_MS).unref();
  }
}
