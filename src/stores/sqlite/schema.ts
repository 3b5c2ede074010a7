import type { Names, TableRole } from './options.ts';

/** One step of the schema's history. */
export interface Migration {
  readonly version: number;
  /** The lowest library schema version that still works with the tables after this step. */
  readonly needs: number;
  readonly statements: (names: Names) => readonly string[];
}

export function consumersTable(quoted: Names['quoted']): string {
  return `CREATE TABLE IF NOT EXISTS ${quoted.consumers} (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  signature TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT`;
}

export function deadLetterTables({ quoted, plain }: Names): readonly string[] {
  return [
    `CREATE TABLE IF NOT EXISTS ${quoted.deadLetters} (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  consumer INTEGER NOT NULL,
  dedupe BLOB NOT NULL,
  message_id TEXT,
  kind TEXT NOT NULL,
  reason TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  lane TEXT NOT NULL,
  position TEXT,
  type TEXT,
  key TEXT,
  time INTEGER,
  headers TEXT NOT NULL,
  payload BLOB NOT NULL,
  at INTEGER NOT NULL,
  closed_at INTEGER
) STRICT`,
    `CREATE UNIQUE INDEX IF NOT EXISTS ${indexName(plain.deadLetters, 'open')}
  ON ${quoted.deadLetters} (consumer, dedupe) WHERE closed_at IS NULL`,
    `CREATE INDEX IF NOT EXISTS ${indexName(plain.deadLetters, 'key')}
  ON ${quoted.deadLetters} (consumer, key) WHERE closed_at IS NULL`,
  ];
}

export function positionsTable(quoted: Names['quoted']): string {
  return `CREATE TABLE IF NOT EXISTS ${quoted.positions} (
  consumer INTEGER NOT NULL,
  lane TEXT NOT NULL,
  position TEXT NOT NULL,
  PRIMARY KEY (consumer, lane)
) STRICT, WITHOUT ROWID`;
}

/**
 * Tables that need no rewrite to change: STRICT, so that no value changes its type on the way in; the inbox WITHOUT
 * ROWID, so that its key is the table and not an index beside it.
 */
const FIRST: Migration = {
  version: 1,
  needs: 1,
  statements: ({ quoted, plain }) => [
    consumersTable(quoted),
    `CREATE TABLE IF NOT EXISTS ${quoted.inbox} (
  consumer INTEGER NOT NULL,
  key BLOB NOT NULL,
  at INTEGER NOT NULL,
  fp BLOB,
  PRIMARY KEY (consumer, key)
) STRICT, WITHOUT ROWID`,
    ...deadLetterTables({ quoted, plain }),
    positionsTable(quoted),
    readableView(quoted),
  ],
};

/** How far each consumer has come in each lane. Offsets end below 2^63, where INTEGER does. */
const LANES: Migration = {
  version: 2,
  needs: 1,
  statements: ({ quoted }) => [
    `CREATE TABLE IF NOT EXISTS ${quoted.lanes} (
  consumer INTEGER NOT NULL,
  lane TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  position INTEGER,
  log TEXT,
  mark TEXT,
  begin_at TEXT,
  at INTEGER NOT NULL,
  PRIMARY KEY (consumer, lane)
) STRICT, WITHOUT ROWID`,
  ],
};

/** Numbers are never used again (AUTOINCREMENT). A part below zero is where parked rows lie, out of the relays' way. */
const OUTBOX: Migration = {
  version: 3,
  needs: 1,
  statements: ({ quoted, plain }) => [
    `CREATE TABLE IF NOT EXISTS ${quoted.outbox} (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  part INTEGER NOT NULL,
  hash INTEGER NOT NULL,
  json INTEGER NOT NULL,
  id TEXT NOT NULL UNIQUE,
  topic TEXT NOT NULL,
  key TEXT,
  headers TEXT,
  payload BLOB NOT NULL,
  at INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  reason TEXT,
  parked_at INTEGER
) STRICT`,
    `CREATE INDEX IF NOT EXISTS ${indexName(plain.outbox, 'part')} ON ${quoted.outbox} (part, seq)`,
    `CREATE INDEX IF NOT EXISTS ${indexName(plain.outbox, 'parked')} ON ${quoted.outbox} (topic, key) WHERE part < 0`,
    `CREATE TABLE IF NOT EXISTS ${quoted.relays} (
  id TEXT NOT NULL PRIMARY KEY,
  until INTEGER NOT NULL
) STRICT, WITHOUT ROWID`,
  ],
};

/** Calls to others. Times are milliseconds since 1970. */
const EFFECTS: Migration = {
  version: 4,
  needs: 1,
  statements: ({ quoted }) => [
    `CREATE TABLE IF NOT EXISTS ${quoted.effects} (
  key TEXT NOT NULL PRIMARY KEY,
  consumer TEXT NOT NULL,
  message_id TEXT NOT NULL,
  name TEXT NOT NULL,
  fp TEXT,
  nonce TEXT NOT NULL,
  until INTEGER NOT NULL,
  state TEXT NOT NULL,
  unknown INTEGER NOT NULL,
  calls INTEGER NOT NULL,
  result TEXT,
  at INTEGER NOT NULL
) STRICT, WITHOUT ROWID`,
  ],
};

/** All of them may be null: the version before goes on writing letters without them. */
const REDRIVE_COLUMNS = [
  'first_at INTEGER',
  'failure TEXT',
  'errors TEXT',
  'as_json INTEGER',
  'sealed INTEGER',
  'revision INTEGER',
  'original TEXT',
  'history TEXT',
  'outcome TEXT',
];

/** What a dead letter needs beyond its first form to be sent through again. */
export function redriveColumns(quoted: Names['quoted']): readonly string[] {
  return REDRIVE_COLUMNS.map(column => `ALTER TABLE ${quoted.deadLetters} ADD COLUMN ${column}`);
}

/** Who works on what, for a process that does not live to tell. */
export function attemptTables(quoted: Names['quoted']): readonly string[] {
  return [
    `CREATE TABLE IF NOT EXISTS ${quoted.attempts} (
  consumer INTEGER NOT NULL,
  key BLOB NOT NULL,
  tries INTEGER NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (consumer, key)
) STRICT, WITHOUT ROWID`,
    `CREATE TABLE IF NOT EXISTS ${quoted.laneOwners} (
  consumer INTEGER NOT NULL,
  lane TEXT NOT NULL,
  owner TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (consumer, lane)
) STRICT, WITHOUT ROWID`,
  ];
}

const REDRIVE: Migration = {
  version: 5,
  needs: 1,
  statements: ({ quoted }) => [...redriveColumns(quoted), ...attemptTables(quoted)],
};

export const MIGRATIONS: readonly Migration[] = [FIRST, LANES, OUTBOX, EFFECTS, REDRIVE];
export const LATEST = MIGRATIONS.at(-1)?.version ?? 0;

export function historyTable({ quoted }: Names): string {
  return `CREATE TABLE IF NOT EXISTS ${quoted.migrations} (
  version INTEGER PRIMARY KEY,
  needs INTEGER NOT NULL,
  applied_at INTEGER NOT NULL
) STRICT`;
}

/** The inbox for people: the consumer's name, the id as it was before encoding (see identity/encoding.ts), ISO time. */
function readableView(quoted: Names['quoted']): string {
  const hex = (from: number, length: number) => `substr(hex(substr(i.key, 2)), ${from}, ${length})`;
  const uuid = [hex(1, 8), hex(9, 4), hex(13, 4), hex(17, 4), hex(21, 12)].join(" || '-' || ");
  return `CREATE VIEW IF NOT EXISTS ${quoted.readable} AS
SELECT
  c.name AS consumer,
  CASE
    WHEN substr(i.key, 1, 1) = x'01' AND length(i.key) = 17 THEN lower(${uuid})
    WHEN substr(i.key, 1, 1) = x'02' THEN CAST(substr(i.key, 2) AS TEXT)
    WHEN substr(i.key, 1, 1) = x'03' THEN 'sha256:' || lower(hex(substr(i.key, 2)))
    ELSE 'bytes:' || lower(hex(i.key))
  END AS id,
  strftime('%Y-%m-%dT%H:%M:%fZ', i.at / 1000.0, 'unixepoch') AS processed_at,
  lower(hex(i.fp)) AS fingerprint
FROM ${quoted.inbox} i LEFT JOIN ${quoted.consumers} c ON c.id = i.consumer`;
}

function indexName(table: string, what: string): string {
  return `"${`${table}_${what}`.replaceAll('"', '""')}"`;
}

export interface Column {
  readonly type: 'INTEGER' | 'TEXT' | 'BLOB';
  readonly nullable?: true;
}

/** What the store's statements rely on, for the check of tables that exist already. */
export interface TableShape {
  readonly columns: Readonly<Record<string, Column>>;
  /** Column sets that must be unique, the partial ones over open rows. */
  readonly unique: readonly { readonly columns: readonly string[]; readonly partial?: true }[];
}

const integer: Column = { type: 'INTEGER' };
const text: Column = { type: 'TEXT' };
const blob: Column = { type: 'BLOB' };
const nullable = (column: Column): Column => ({ ...column, nullable: true });

export const SHAPES: Readonly<Record<TableRole, TableShape>> = {
  consumers: {
    columns: { id: nullable(integer), name: text, signature: text, created_at: integer },
    unique: [{ columns: ['id'] }, { columns: ['name'] }],
  },
  inbox: {
    columns: { consumer: integer, key: blob, at: integer, fp: nullable(blob) },
    unique: [{ columns: ['consumer', 'key'] }],
  },
  deadLetters: {
    columns: {
      id: nullable(integer),
      consumer: integer,
      dedupe: blob,
      message_id: nullable(text),
      kind: text,
      reason: text,
      attempts: integer,
      lane: text,
      position: nullable(text),
      type: nullable(text),
      key: nullable(text),
      time: nullable(integer),
      headers: text,
      payload: blob,
      at: integer,
      closed_at: nullable(integer),
      first_at: nullable(integer),
      failure: nullable(text),
      errors: nullable(text),
      as_json: nullable(integer),
      sealed: nullable(integer),
      revision: nullable(integer),
      original: nullable(text),
      history: nullable(text),
      outcome: nullable(text),
    },
    unique: [{ columns: ['id'] }, { columns: ['consumer', 'dedupe'], partial: true }],
  },
  positions: {
    columns: { consumer: integer, lane: text, position: text },
    unique: [{ columns: ['consumer', 'lane'] }],
  },
  lanes: {
    columns: {
      consumer: integer,
      lane: text,
      epoch: integer,
      position: nullable(integer),
      log: nullable(text),
      mark: nullable(text),
      begin_at: nullable(text),
      at: integer,
    },
    unique: [{ columns: ['consumer', 'lane'] }],
  },
  outbox: {
    columns: {
      seq: nullable(integer),
      part: integer,
      hash: integer,
      json: integer,
      id: text,
      topic: text,
      key: nullable(text),
      headers: nullable(text),
      payload: blob,
      at: integer,
      attempts: integer,
      reason: nullable(text),
      parked_at: nullable(integer),
    },
    unique: [{ columns: ['seq'] }, { columns: ['id'] }],
  },
  relays: { columns: { id: text, until: integer }, unique: [{ columns: ['id'] }] },
  effects: {
    columns: {
      key: text,
      consumer: text,
      message_id: text,
      name: text,
      fp: nullable(text),
      nonce: text,
      until: integer,
      state: text,
      unknown: integer,
      calls: integer,
      result: nullable(text),
      at: integer,
    },
    unique: [{ columns: ['key'] }],
  },
  attempts: {
    columns: { consumer: integer, key: blob, tries: integer, at: integer },
    unique: [{ columns: ['consumer', 'key'] }],
  },
  laneOwners: {
    columns: { consumer: integer, lane: text, owner: text, at: integer },
    unique: [{ columns: ['consumer', 'lane'] }],
  },
  migrations: {
    columns: { version: nullable(integer), needs: integer, applied_at: integer },
    unique: [{ columns: ['version'] }],
  },
};
