import { parseCommand } from '../arguments.ts';
import { CommandError } from '../command-error.ts';
import type { Command } from '../command-line.ts';
import { EXIT } from '../exit-codes.ts';
import { type Migrations, withStore } from '../store-of.ts';
import { STORE_FORMS } from '../store-url.ts';

const HELP = `nevertwice migrate [<module>] [--store URL] [--print] [--json]

Creates the tables that a store needs, or brings them to this version.

  nevertwice migrate --store sqlite:wallet.db
  nevertwice migrate --store postgres://owner@db.example/shop
  nevertwice migrate --store postgres: --print > nevertwice.sql

A consumer does the same at its start, unless its store says migrate: 'check'. Run this first where the application's
role may not create tables; or have the SQL reviewed and run by hand.

  <module>       take the store of the consumer that this module exports: with its schema and table names
  --store URL    ${STORE_FORMS}
  --print        print all migrations as one SQL script; connects to nothing and changes nothing
  --json         {"applied":[1]}, or with --print {"sql":"…"}

What you can rely on: applied in one transaction, one process at a time, each version once. Changes only add, so that
this version and the one before it can work on the same tables while a deployment rolls.

Exit codes: 0 the tables fit; 1 a mistake in the command line or the module; 2 the store cannot be reached, its role may
not create tables, or its tables do not fit.`;

export const command: Command = {
  help: HELP,
  async run(args, output) {
    const { values, positionals } = parseCommand(
      'migrate',
      args,
      { store: { type: 'string' }, print: { type: 'boolean' }, json: { type: 'boolean' } },
      1,
    );
    const json = values.json === true;
    if (values.print === true) {
      const sql = await migrationSql(positionals[0], values.store);
      output.result(json ? JSON.stringify({ sql }) : sql.trimEnd());
      return EXIT.done;
    }
    return withStore('migrate', positionals[0], values.store, async store => {
      const applied = await migrations(store.name, store).migrate();
      output.result(json ? JSON.stringify({ applied }) : inWords(store.name, applied));
      return EXIT.done;
    });
  },
};

function inWords(store: string, applied: readonly number[]): string {
  if (applied.length === 0) return `${store}: nothing to do, the tables fit this version`;
  return `${store}: applied ${applied.length === 1 ? 'migration' : 'migrations'} ${applied.join(', ')}`;
}

function migrations(name: string, store: Partial<Migrations>): Migrations {
  if (store.migrate !== undefined) return store as Migrations;
  throw new CommandError(`${name} has no tables, so there is nothing to migrate`);
}

/** Needs neither a server nor its client. */
async function migrationSql(module: string | undefined, url: string | undefined): Promise<string> {
  if (url !== undefined && /^postgres(ql)?:/i.test(url)) {
    const { migrationSql: print } = await import('../../stores/postgres/migrations.ts');
    const { tablesFrom } = await import('../../stores/postgres/tables.ts');
    return print(tablesFrom({}));
  }
  if (url?.toLowerCase() === 'sqlite:') {
    const { migrationSql: print } = await import('../../stores/sqlite/migrations.ts');
    return print();
  }
  return withStore('migrate', module, url, async store => migrations(store.name, store).migrationSql());
}
