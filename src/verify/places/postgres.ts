import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { postgresProxy } from '../proxies/postgres-proxy.ts';
import { Upstreams } from '../proxies/postgres-upstream.ts';
import { VerifyError } from '../verify-error.ts';
import { type LockingPlace, type Pausing, PlaceBusy, type Row, type State } from '../world.ts';

/** What we use of the client `pg`. */
export interface PgClient {
  connect(): Promise<unknown>;
  query(text: string, values?: readonly unknown[]): Promise<{ rows: any[] } | { rows: any[] }[]>;
  end(): Promise<unknown>;
  on(event: 'error', listener: () => void): unknown;
}
export type PgClientClass = new (config: { connectionString: string; application_name?: string }) => PgClient;

export interface PostgresOptions {
  /** Of a role that may create databases. */
  readonly url: string;
  readonly Client: PgClientClass;
  readonly schema: string;
  readonly seed: string;
}

/** A database of its own, with a copy of what the seed put into it. */
export interface PostgresPlace extends LockingPlace, Pausing {
  /** Call it before anything is made to stand still, while no consumer is there. */
  letPause(): Promise<void>;
  /**
   * Call it when the handler has run once: tables that it created are known from then on, and empty before each execution. Of
   * the tables of this library those stay that say who the consumers are.
   */
  learnTables(): Promise<void>;
  /**
   * What happens to tables while nobody looks: leases run out, records are deleted. `what` is how the user calls that SQL.
   *
   * @throws VerifyError
   */
  carryOut(what: string, sql: string): Promise<void>;
  /** The columns by which rows are told apart, and those that the database numbers itself. */
  readonly columns: ColumnFacts;
}

export interface ColumnFacts {
  keyOf(table: string): readonly string[];
  /** `table.column`: identity, serial, and foreign keys to those. They have gaps wherever a transaction was rolled back. */
  readonly numbered: ReadonlySet<string>;
}

const COPIES = 'verify_seed';
/** A closed connection whose statement runs on for so long would never be let go of. */
const LET_GO_WITHIN_MS = 30_000;
/** Advisory locks with this first key are ours. */
const PAUSES = 1_313_166_419;
/** Between executions nobody is at work, and who still has a lock has forgotten it. */
const LOCKED_FOR_MS = 500;
const KEPT = new Set(['nevertwice.consumers', 'nevertwice.migrations']);

export async function postgresPlace(options: PostgresOptions): Promise<PostgresPlace> {
  const { Client } = options;
  const name = `verify_${randomBytes(6).toString('hex')}`;
  const server = new Client({ connectionString: options.url });
  server.on('error', () => undefined);
  try {
    await server.connect();
    await server.query(`CREATE DATABASE ${name} TEMPLATE template0 ENCODING 'UTF8'`);
  } catch (error) {
    throw new VerifyError(`PostgreSQL cannot be used: ${(error as Error).message}`, { cause: error });
  }
  const url = new URL(options.url);
  url.pathname = `/${name}`;
  url.search = '';
  const admin = new Client({ connectionString: url.href, application_name: 'nevertwice verify' });
  admin.on('error', () => undefined);
  await admin.connect();
  const place = new Postgres(admin, server, name, url);
  try {
    await place.load('schema', options.schema);
    await place.load('seed', options.seed);
    await place.copySeed();
  } catch (error) {
    await place.close();
    throw error;
  }
  return place;
}

class Postgres implements PostgresPlace {
  readonly #admin: PgClient;
  readonly #server: PgClient;
  readonly #name: string;
  readonly #url: URL;
  readonly #upstreams: Upstreams;
  readonly #seeded = new Set<string>();
  #reset = '';
  #snapshot = '';
  #keys = new Map<string, string[]>();
  #numbered = new Set<string>();

  constructor(admin: PgClient, server: PgClient, name: string, url: URL) {
    this.#admin = admin;
    this.#server = server;
    this.#name = name;
    this.#url = url;
    this.#upstreams = new Upstreams(url.hostname, Number(url.port || 5432));
  }

  get columns(): ColumnFacts {
    return { keyOf: table => this.#keys.get(table) ?? [], numbered: this.#numbered };
  }

  async load(what: string, sql: string): Promise<void> {
    if (sql.trim() === '') return;
    try {
      await this.#admin.query(sql);
    } catch (error) {
      throw new VerifyError(`the ${what} does not load: ${(error as Error).message}`, { cause: error });
    }
  }

  async copySeed(): Promise<void> {
    const tables = await this.#tables();
    const copies = tables.map((table, i) => {
      this.#seeded.add(table);
      return `CREATE TABLE ${COPIES}.t${i} AS TABLE ${quoted(table)}`;
    });
    await this.#admin.query(`CREATE SCHEMA ${COPIES}; ${copies.join('; ')}`);
    await this.#prepare(tables);
  }

  async learnTables(): Promise<void> {
    await this.#prepare(await this.#tables());
  }

  async #tables(): Promise<string[]> {
    const found = await this.#rows(`SELECT format('%s.%s', n.nspname, c.relname) AS name
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname NOT IN ('pg_catalog', 'information_schema', '${COPIES}')
      ORDER BY c.oid`);
    return found.map(row => row.name as string);
  }

  async #prepare(tables: readonly string[]): Promise<void> {
    const generated =
      await this.#rows(`SELECT format('%s.%s', n.nspname, c.relname) AS table, a.attname AS column, a.attidentity AS identity
      FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
      WHERE a.attnum > 0 AND NOT a.attisdropped
        AND (a.attidentity <> '' OR pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%')`);
    this.#numbered = new Set(generated.map(row => `${shown(row.table)}.${row.column}`));
    const references = await this.#rows(`SELECT format('%s.%s', n.nspname, c.relname) AS table, a.attname AS column,
        format('%s.%s', fn.nspname, fc.relname) AS to_table, fa.attname AS to_column
      FROM pg_constraint k CROSS JOIN LATERAL unnest(k.conkey, k.confkey) AS u(col, fcol)
      JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.col
      JOIN pg_class fc ON fc.oid = k.confrelid JOIN pg_namespace fn ON fn.oid = fc.relnamespace
      JOIN pg_attribute fa ON fa.attrelid = k.confrelid AND fa.attnum = u.fcol
      WHERE k.contype = 'f'`);
    for (let grown = true; grown; ) {
      grown = false;
      for (const row of references) {
        const [from, to] = [`${shown(row.table)}.${row.column}`, `${shown(row.to_table)}.${row.to_column}`];
        if (!this.#numbered.has(to) || this.#numbered.has(from)) continue;
        this.#numbered.add(from);
        grown = true;
      }
    }
    const keys = await this.#rows(`SELECT format('%s.%s', n.nspname, c.relname) AS table, a.attname AS column
      FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)
      WHERE i.indisprimary ORDER BY a.attnum`);
    this.#keys = new Map();
    for (const { table, column } of keys)
      this.#keys.set(shown(table), [...(this.#keys.get(shown(table)) ?? []), column]);

    const identity = new Map(generated.filter(row => row.identity !== '').map(row => [row.table, true]));
    const sequences = await this.#rows(
      `SELECT format('%I.%I', schemaname, sequencename) AS name, last_value, start_value FROM pg_sequences`,
    );
    const seeded = [...this.#seeded];
    const restore = tables.flatMap(table => {
      if (KEPT.has(table)) return [];
      const copy = seeded.indexOf(table);
      const emptied = `DELETE FROM ${quoted(table)}`;
      if (copy === -1) return [emptied];
      return [
        emptied,
        `INSERT INTO ${quoted(table)}${identity.has(table) ? ' OVERRIDING SYSTEM VALUE' : ''} TABLE ${COPIES}.t${copy}`,
      ];
    });
    // After the seed a sequence stands where it stood; one that a handler brought begins anew.
    this.#sequences ??= new Map(sequences.map(row => [row.name, row.last_value]));
    const setval = sequences
      .filter(row => !row.name.startsWith('nevertwice.'))
      .map(({ name, start_value }) => {
        const last = this.#sequences!.get(name) ?? null;
        return last === null ? `SELECT setval('${name}', ${start_value}, false)` : `SELECT setval('${name}', ${last})`;
      });
    this.#reset = [
      `SET session_replication_role = replica; SET lock_timeout = '${LOCKED_FOR_MS}ms'`,
      ...restore,
      ...setval,
      'SET session_replication_role = DEFAULT',
    ].join('; ');
    this.#compared = tables.filter(table => !table.startsWith('nevertwice.'));
    this.#snapshot = this.#compared
      .map(
        table => `SELECT '${shown(table)}' AS name, ARRAY(SELECT (SELECT jsonb_object_agg(key, value) FROM jsonb_each_text(to_jsonb(x)))::text
          FROM ${quoted(table)} x) AS rows`,
      )
      .join(' UNION ALL ');
  }

  #sequences: Map<string, string | null> | undefined;
  #closed = false;
  /** Tables of the handler, with their schemas. */
  #compared: readonly string[] = [];
  #own = 0;

  async #rows(sql: string): Promise<any[]> {
    return ((await this.#ask(sql)) as { rows: any[] }).rows;
  }

  /** One at a time: several consumers may be cut off at once, and each asks whether the server has let go of it. */
  #ask(sql: string): ReturnType<PgClient['query']> {
    const asked = this.#asking.then(() => this.#admin.query(sql));
    this.#asking = asked.catch(() => undefined);
    return asked;
  }

  #asking: Promise<unknown> = Promise.resolve();

  async gate(onHeld: Parameters<LockingPlace['gate']>[0]): ReturnType<LockingPlace['gate']> {
    const proxy = await postgresProxy({ upstreams: this.#upstreams, gone: backends => this.#gone(backends) }, onHeld);
    const url = new URL(this.#url);
    url.hostname = '127.0.0.1';
    url.port = String(proxy.port);
    url.searchParams.set('sslmode', 'disable');
    return { proxy, url: url.href };
  }

  async #gone(backends: readonly number[]): Promise<void> {
    if (backends.length === 0) return;
    // A client may say goodbye as late as when all is over, and nobody waits for what comes of it then.
    const deadline = performance.now() + LET_GO_WITHIN_MS;
    while (!this.#closed) {
      const left = await this.#rows(`SELECT FROM pg_stat_activity WHERE pid IN (${backends.join(', ')})`);
      if (left.length === 0) return;
      if (performance.now() > deadline)
        throw new VerifyError(
          `PostgreSQL has not let go of a connection that was closed ${LET_GO_WITHIN_MS / 1_000} s ago`,
        );
      await sleep(1);
    }
  }

  async blocked(backends: readonly number[], among: readonly number[]): Promise<ReadonlySet<number>> {
    if (backends.length === 0) return new Set();
    const rows = await this.#rows(
      `SELECT pid FROM unnest(ARRAY[${backends.join(', ')}]) AS pid
       WHERE pg_isolation_test_session_is_blocked(pid, ARRAY[${[...among, ...this.#holder].join(', ')}]::int[])`,
    );
    return new Set(rows.map(row => row.pid as number));
  }

  async letPause(): Promise<void> {
    const tables = this.#compared;
    await this.#ask(`CREATE FUNCTION ${COPIES}.pause() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        PERFORM pg_advisory_lock_shared(${PAUSES}, pg_backend_pid()), pg_advisory_unlock_shared(${PAUSES}, pg_backend_pid());
        RETURN NEW;
      END $$;
      ${tables.map(table => `CREATE TRIGGER verify_pause BEFORE INSERT ON ${quoted(table)} FOR EACH ROW EXECUTE FUNCTION ${COPIES}.pause()`).join(';')}`);
    this.#own = (await this.#rows('SELECT pg_backend_pid() AS pid'))[0].pid;
  }

  /** We hold what keeps a statement from going on. */
  get #holder(): readonly number[] {
    return this.#own === 0 ? [] : [this.#own];
  }

  suits(text: string): boolean {
    // With what it selects in the same statement; a row that is given as it is depends on nothing that it has read.
    const [, table] = /\binsert\s+into\s+([\w."]+)[^;]*?\bselect\b/i.exec(text) ?? [];
    const name = table?.replaceAll('"', '').toLowerCase();
    return this.#compared.some(one => [one, shown(one)].some(known => known.toLowerCase() === name));
  }

  async pause(backend: number): Promise<void> {
    await this.#ask(`SELECT pg_advisory_lock(${PAUSES}, ${backend})`);
  }

  async resume(backend: number): Promise<void> {
    await this.#ask(`SELECT pg_advisory_unlock(${PAUSES}, ${backend})`);
  }

  async reset(): Promise<void> {
    await this.#ask(this.#reset).catch(busy);
  }

  async carryOut(what: string, sql: string): Promise<void> {
    try {
      await this.#ask(sql);
    } catch (error) {
      // Whoever has locked a row in an open transaction is at work on it.
      if ((error as { code?: string }).code === '55P03') return;
      throw new VerifyError(`the SQL of ${what} fails: ${(error as Error).message}`, { cause: error });
    }
  }

  async state(): Promise<State> {
    const state = new Map<string, readonly Row[]>();
    if (this.#snapshot === '') return state;
    for (const { name, rows } of await this.#rows(this.#snapshot).catch(busy)) {
      state.set(
        name as string,
        (rows as (string | null)[]).map(row => JSON.parse(row ?? '{}') as Row),
      );
    }
    return state;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#upstreams.close();
    await this.#asking;
    await this.#admin.end().catch(() => undefined);
    await this.#server.query(`DROP DATABASE ${this.#name} WITH (FORCE)`).catch(() => undefined);
    await this.#server.end().catch(() => undefined);
  }
}

/** @throws PlaceBusy for a lock that nobody gives up: 55P03, lock_not_available */
function busy(error: Error & { readonly code?: string }): never {
  if (error.code === '55P03') throw new PlaceBusy('a lock is held', { cause: error });
  throw error;
}

function quoted(table: string): string {
  const dot = table.indexOf('.');
  return `"${table.slice(0, dot).replaceAll('"', '""')}"."${table.slice(dot + 1).replaceAll('"', '""')}"`;
}

/** As a person names it: without `public`. */
function shown(table: string): string {
  return table.replace(/^public\./, '');
}
