import { NevertwiceError } from '../../errors.ts';
import type { Tables } from './tables.ts';

export interface Migration {
  readonly version: number;
  readonly name: string;
  /**
   * The oldest schema version a library may know and still work on this one. Changes are expand-only, so that two
   * neighbouring versions of the library run side by side while a deployment rolls.
   */
  readonly needs: number;
  readonly statements: (t: Tables) => readonly string[];
}

// dead_letters.dedupe and inbox.key are bytes: text columns compare by collation and cannot hold every id.
export const MIGRATIONS: readonly Migration[] = [
  {
    version: 1,
    name: 'inbox, consumers, dead letters, positions',
    needs: 1,
    statements: t => [
      `CREATE TABLE IF NOT EXISTS ${t.quoted.consumers} (
  id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text COLLATE "C" NOT NULL UNIQUE,
  signature text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
)`,
      `CREATE TABLE IF NOT EXISTS ${t.quoted.inbox} (
  at timestamptz NOT NULL DEFAULT now(),
  consumer int NOT NULL,
  key bytea NOT NULL,
  fp bytea,
  PRIMARY KEY (consumer, key)
)`,
      // Ids are all but random, so pages split at the middle; the table itself is insert-only and needs no room.
      `ALTER TABLE ${t.quoted.inbox} SET (autovacuum_vacuum_insert_scale_factor = 0.05)`,
      `CREATE TABLE IF NOT EXISTS ${t.quoted.deadLetters} (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  consumer int NOT NULL,
  dedupe bytea NOT NULL,
  message_id text,
  kind text NOT NULL,
  reason text NOT NULL,
  attempts int NOT NULL,
  lane text NOT NULL,
  position text,
  type text,
  key text COLLATE "C",
  time timestamptz,
  headers text NOT NULL,
  payload bytea NOT NULL,
  at timestamptz NOT NULL DEFAULT now(),
  closed_at timestamptz
)`,
      `CREATE UNIQUE INDEX IF NOT EXISTS ${t.openIndex} ON ${t.quoted.deadLetters} (consumer, dedupe) WHERE closed_at IS NULL`,
      `CREATE INDEX IF NOT EXISTS ${t.keyIndex} ON ${t.quoted.deadLetters} (consumer, key) WHERE closed_at IS NULL`,
      `CREATE TABLE IF NOT EXISTS ${t.quoted.positions} (
  consumer text COLLATE "C" NOT NULL,
  lane text COLLATE "C" NOT NULL,
  position text NOT NULL,
  PRIMARY KEY (consumer, lane)
) WITH (fillfactor = 50)`,
      `CREATE OR REPLACE VIEW ${t.readable} AS
SELECT c.name AS consumer,
       CASE get_byte(i.key, 0)
         WHEN 1 THEN encode(substr(i.key, 2), 'hex')::uuid::text
         WHEN 2 THEN convert_from(substr(i.key, 2), 'UTF8')
         ELSE 'sha256:' || encode(substr(i.key, 2), 'hex')
       END AS message_id,
       i.at AS processed_at
FROM ${t.quoted.inbox} i JOIN ${t.quoted.consumers} c ON c.id = i.consumer`,
    ],
  },
  {
    version: 2,
    name: 'lanes',
    needs: 1,
    statements: t => [
      // Updated once a batch: half of each page stays free, so that an update finds room beside the old row (HOT) and
      // neither the index nor the table grows with it.
      `CREATE TABLE IF NOT EXISTS ${t.quoted.lanes} (
  consumer int NOT NULL,
  lane text COLLATE "C" NOT NULL,
  epoch bigint NOT NULL,
  position bigint,
  log text,
  mark text,
  begin_at text,
  at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (consumer, lane)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0)`,
    ],
  },
  {
    version: 3,
    name: 'outbox',
    needs: 1,
    statements: t => [
      // CACHE 1: a session that keeps numbers for later would give a late commit of a key a low one. A part below zero is
      // where parked rows lie, out of the relays' way.
      `CREATE TABLE IF NOT EXISTS ${t.quoted.outbox} (
  seq bigint GENERATED ALWAYS AS IDENTITY (CACHE 1),
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  parked_at timestamptz,
  hash int NOT NULL,
  attempts int NOT NULL DEFAULT 0,
  part smallint NOT NULL,
  json boolean NOT NULL,
  id text COLLATE "C" NOT NULL UNIQUE,
  topic text COLLATE "C" NOT NULL,
  key text COLLATE "C",
  headers text,
  reason text,
  payload bytea NOT NULL,
  PRIMARY KEY (part, seq)
) WITH (autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0.01)`,
      `CREATE INDEX IF NOT EXISTS ${t.parkedIndex} ON ${t.quoted.outbox} (topic, key) WHERE part < 0`,
      `CREATE TABLE IF NOT EXISTS ${t.quoted.relays} (
  id text COLLATE "C" PRIMARY KEY,
  until timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0)`,
    ],
  },
  {
    version: 4,
    name: 'effects',
    needs: 1,
    statements: t => [
      // Times are milliseconds since 1970 by this server's clock. Each row is written three times within seconds: with room
      // in its page no index hears of the last two (HOT).
      `CREATE TABLE IF NOT EXISTS ${t.quoted.effects} (
  key text COLLATE "C" PRIMARY KEY,
  consumer text COLLATE "C" NOT NULL,
  message_id text NOT NULL,
  name text NOT NULL,
  fp text,
  nonce text NOT NULL,
  until bigint NOT NULL,
  state text NOT NULL,
  unknown int NOT NULL,
  calls int NOT NULL,
  result text,
  at bigint NOT NULL
) WITH (fillfactor = 70)`,
    ],
  },
  {
    version: 5,
    name: 'dead letters to send through again, attempts',
    needs: 1,
    statements: t => [
      // All of them may be null: the version before this one goes on writing letters without them.
      `ALTER TABLE ${t.quoted.deadLetters}
  ADD COLUMN IF NOT EXISTS first_at timestamptz,
  ADD COLUMN IF NOT EXISTS failure text,
  ADD COLUMN IF NOT EXISTS errors text,
  ADD COLUMN IF NOT EXISTS as_json boolean,
  ADD COLUMN IF NOT EXISTS sealed boolean,
  ADD COLUMN IF NOT EXISTS revision int,
  ADD COLUMN IF NOT EXISTS original text,
  ADD COLUMN IF NOT EXISTS history text,
  ADD COLUMN IF NOT EXISTS outcome text`,
      `CREATE TABLE IF NOT EXISTS ${t.quoted.attempts} (
  consumer int NOT NULL,
  key bytea NOT NULL,
  tries int NOT NULL,
  at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (consumer, key)
)`,
      `CREATE TABLE IF NOT EXISTS ${t.quoted.laneOwners} (
  consumer int NOT NULL,
  lane text COLLATE "C" NOT NULL,
  owner text NOT NULL,
  at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (consumer, lane)
)`,
    ],
  },
];

export const SCHEMA_VERSION = MIGRATIONS[MIGRATIONS.length - 1]!.version;

export interface MigrationRow {
  readonly version: number;
  readonly needs: number;
}

/** The migrations that are still to run on a database with this history; throws NT_SCHEMA when it is too new for us. */
export function pendingMigrations(history: readonly MigrationRow[], where: string): readonly Migration[] {
  for (const row of history) {
    if (row.version > SCHEMA_VERSION && row.needs > SCHEMA_VERSION) {
      throw new NevertwiceError(
        'NT_SCHEMA',
        `${where} is at schema version ${row.version}, which needs a newer nevertwice (this one knows ${SCHEMA_VERSION}); upgrade the package`,
      );
    }
  }
  const done = new Set(history.map(row => row.version));
  return MIGRATIONS.filter(migration => !done.has(migration.version));
}

export function createSchema(t: Tables): string {
  return `CREATE SCHEMA IF NOT EXISTS ${t.quotedSchema}`;
}

export function createHistory(t: Tables): string {
  return `CREATE TABLE IF NOT EXISTS ${t.quoted.migrations} (
  version int PRIMARY KEY,
  name text NOT NULL,
  needs int NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now()
)`;
}

/** All migrations as one script, for people who run SQL by hand. Running it twice does nothing. */
export function migrationSql(t: Tables): string {
  const statements = [
    createSchema(t),
    createHistory(t),
    ...MIGRATIONS.flatMap(m => [
      ...m.statements(t),
      `INSERT INTO ${t.quoted.migrations} (version, name, needs) VALUES (${m.version}, '${m.name}', ${m.needs}) ON CONFLICT DO NOTHING`,
    ]),
  ];
  return `BEGIN;\n${statements.map(s => `${s};`).join('\n')}\nCOMMIT;\n`;
}
