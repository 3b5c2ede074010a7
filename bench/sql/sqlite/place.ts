import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Contestant } from '../../contest.ts';
import { assertBalances, type Load, WALLETS } from '../load.ts';

/** A folder for the database files of this bench, in the system's temporary one. */
export class SqlitePlace {
  readonly folder: string = mkdtempSync(join(tmpdir(), 'nevertwice-bench-'));
  readonly #closers: (() => void | Promise<void>)[] = [];

  /** A connection as a careful engineer sets it up: WAL, and every commit on the disk before it returns. */
  database(file: string): DatabaseSync {
    const database = new DatabaseSync(file);
    database.exec('pragma journal_mode = wal; pragma synchronous = full');
    this.#closers.push(() => database.close());
    return database;
  }

  closeAtEnd(resource: { close(): void | Promise<void> }): void {
    this.#closers.push(() => resource.close());
  }

  facts(): string {
    const database = new DatabaseSync(':memory:');
    const version = database.prepare('select sqlite_version() as version').get()?.version;
    database.close();
    return `SQLite ${version} (node:sqlite), WAL, synchronous FULL`;
  }

  async close(): Promise<void> {
    for (const close of this.#closers.reverse()) await close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export interface WalletJob {
  readonly id: string;
  readonly load: Load;
  /**
   * Called once, when the contestant first has its turn; what it returns, before every run. The file is the
   * contestant's own and holds `wallet` and `processed`.
   */
  open(file: string): Promise<() => () => Promise<void>>;
}

/** A contestant with a file of its own. */
export function walletContestant(place: SqlitePlace, job: WalletJob): Contestant {
  const file = join(place.folder, `${job.id}.db`);
  let opened: { readonly database: DatabaseSync; readonly prepareRun: () => () => Promise<void> } | undefined;
  const open = async () => {
    const database = place.database(file);
    database.exec(`create table wallet (id integer primary key, balance integer not null) strict;
create table processed (
  consumer text not null,
  message_id text not null,
  processed_at integer not null default (unixepoch()),
  primary key (consumer, message_id)) strict, without rowid`);
    return { database, prepareRun: await job.open(file) };
  };
  return {
    id: job.id,
    events: job.load.events,
    async prepare() {
      opened ??= await open();
      empty(opened.database);
      return opened.prepareRun();
    },
    async check() {
      const rows = opened!.database.prepare('select id, balance from wallet').all();
      assertBalances(rows as { id: number; balance: number }[], job.load.once);
    },
  };
}

function empty(database: DatabaseSync): void {
  const tables = database
    .prepare("select name from sqlite_schema where name in ('processed', 'nevertwice_inbox')")
    .all();
  database.exec(`begin immediate;
${tables.map(({ name }) => `delete from ${name};`).join('\n')}
delete from wallet;
with recursive ids(id) as (select 0 union all select id + 1 from ids where id < ${WALLETS - 1})
insert into wallet select id, 0 from ids;
commit;
pragma wal_checkpoint(truncate)`);
}
