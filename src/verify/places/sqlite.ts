import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import type { Gate } from '../gate.ts';
import { guard } from '../servers/guard.ts';
import { VerifyError } from '../verify-error.ts';
import { type Place, PlaceBusy, type Row, type State } from '../world.ts';
import type { ColumnFacts } from './postgres.ts';

/** A file of SQLite of its own. Its gate is in the process that opens it: see hosts/sqlite-gate.ts. */
export interface SqlitePlace extends Place {
  readonly file: string;
  /** As of PostgreSQL: what the handler's first run created is known from then on, and empty before each execution. */
  learnTables(): Promise<void>;
  readonly columns: ColumnFacts;
}

/** Says who the consumers are; rows of them stay. */
const KEPT = /^nevertwice_(?:consumers|migrations)$/;
const OWN = /^nevertwice_/;

export async function sqlitePlace({ schema, seed }: { schema: string; seed: string }): Promise<SqlitePlace> {
  const { DatabaseSync } = await import('node:sqlite');
  // Each commit waits for its file; in memory that takes no time.
  const folder = await mkdtemp(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'nevertwice-sqlite-'));
  guard().folder(folder);
  const file = join(folder, 'verify.db');
  const database = new DatabaseSync(file);
  const close = async () => {
    if (database.isOpen) database.close();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    load(database, 'schema', schema);
    load(database, 'seed', seed);
  } catch (error) {
    await close();
    throw error;
  }
  return new Sqlite(file, database, close);
}

function load(database: DatabaseSync, what: string, sql: string): void {
  try {
    database.exec(sql);
  } catch (error) {
    throw new VerifyError(`the ${what} does not load: ${(error as Error).message}`, { cause: error });
  }
}

/** Nothing goes over a network. */
const NOWHERE: Gate = {
  port: -1,
  backends: [],
  sever: async () => undefined,
  reopen: () => undefined,
  close: async () => undefined,
};

interface Table {
  readonly name: string;
  /** Those that are stored, and not computed. */
  readonly columns: readonly string[];
  readonly key: readonly string[];
}

type Value = string | number | bigint | Uint8Array | null;

class Sqlite implements SqlitePlace {
  readonly file: string;
  readonly close: () => Promise<void>;
  readonly #database: DatabaseSync;
  #tables: readonly Table[] = [];
  #triggers: readonly { readonly name: string; readonly sql: string }[] = [];
  readonly #seed: ReadonlyMap<string, readonly (readonly Value[])[]>;

  constructor(file: string, database: DatabaseSync, close: () => Promise<void>) {
    this.file = file;
    this.close = close;
    this.#database = database;
    this.#learn();
    this.#seed = new Map(this.#tables.map(table => [table.name, this.#rows(table)]));
  }

  get columns(): ColumnFacts {
    return {
      keyOf: name => this.#tables.find(table => table.name === name)?.key ?? [],
      // A number that was rolled back is given again.
      numbered: new Set(),
    };
  }

  async learnTables(): Promise<void> {
    this.#learn();
  }

  async gate(): ReturnType<Place['gate']> {
    return { proxy: NOWHERE, url: this.file };
  }

  async reset(): Promise<void> {
    const database = this.#database;
    try {
      // Outside of a transaction, or it does nothing.
      database.exec('PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE');
    } catch (error) {
      throw new PlaceBusy((error as Error).message, { cause: error });
    }
    try {
      for (const { name } of this.#triggers) database.exec(`DROP TRIGGER IF EXISTS ${quoted(name)}`);
      for (const table of this.#tables) if (!KEPT.test(table.name)) this.#restore(table);
      for (const { sql } of this.#triggers) database.exec(sql);
      database.exec('COMMIT');
    } catch (error) {
      if (database.isTransaction) database.exec('ROLLBACK');
      throw error;
    }
  }

  #restore({ name, columns }: Table): void {
    this.#database.exec(`DELETE FROM ${quoted(name)}`);
    const rows = this.#seed.get(name) ?? [];
    if (rows.length === 0) return;
    const list = columns.map(quoted).join(', ');
    const insert = this.#database.prepare(
      `INSERT INTO ${quoted(name)} (${list}) VALUES (${columns.map(() => '?').join(', ')})`,
    );
    for (const row of rows) insert.run(...row);
  }

  async state(): Promise<State> {
    const state = new Map<string, readonly Row[]>();
    for (const table of this.#tables) {
      if (OWN.test(table.name) || table.name === 'sqlite_sequence') continue;
      const rows = this.#rows(table);
      state.set(
        table.name,
        rows.map(row => Object.fromEntries(table.columns.map((column, i) => [column, shown(row[i]!)]))),
      );
    }
    return state;
  }

  #learn(): void {
    const all = (sql: string, ...values: string[]) =>
      this.#database.prepare(sql).all(...values) as Record<string, any>[];
    const names = all(`SELECT name FROM pragma_table_list
      WHERE schema = 'main' AND type = 'table' AND (name NOT LIKE 'sqlite\\_%' ESCAPE '\\' OR name = 'sqlite_sequence')
      ORDER BY name = 'sqlite_sequence', name`);
    this.#tables = names.map(({ name }) => {
      const columns = all('SELECT name, pk FROM pragma_table_xinfo(?) WHERE hidden = 0 ORDER BY cid', name);
      return {
        name,
        columns: columns.map(column => column.name),
        key: columns.filter(column => Number(column.pk) > 0).map(column => column.name),
      };
    });
    this.#triggers = all(`SELECT name, sql FROM sqlite_master WHERE type = 'trigger'`) as {
      name: string;
      sql: string;
    }[];
  }

  #rows({ name, columns }: Table): readonly (readonly Value[])[] {
    try {
      const statement = this.#database.prepare(`SELECT ${columns.map(quoted).join(', ')} FROM ${quoted(name)}`);
      statement.setReadBigInts(true);
      return statement.all().map(row => columns.map(column => (row as Record<string, Value>)[column]!));
    } catch (error) {
      if (((error as { errcode?: number }).errcode ?? 0) % 256 === 5)
        throw new PlaceBusy('a lock is held', { cause: error });
      throw error;
    }
  }
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function shown(value: Value): string | null {
  if (value === null) return null;
  return value instanceof Uint8Array ? `\\x${Buffer.from(value).toString('hex')}` : String(value);
}
