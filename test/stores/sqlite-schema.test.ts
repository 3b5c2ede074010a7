import { writeFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { migrationSql, type SqliteOptions, sqliteStore } from '../../src/stores/sqlite/index.ts';
import { LATEST, MIGRATIONS, SHAPES } from '../../src/stores/sqlite/schema.ts';
import { clients, temporaryFile } from './sqlite-clients.ts';
import { budget, claimOf, letterOf, walletOn } from './sqlite-support.ts';

const consumer = { name: 'ledger', signature: 's/1' };
const nothing = async () => undefined;

function inMemory(): DatabaseSync & Disposable {
  return new DatabaseSync(':memory:') as DatabaseSync & Disposable;
}

const tablesOf = (database: DatabaseSync) =>
  database
    .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")
    .all()
    .map(row => row.name);

describe('C38: tables that are there are checked by name', () => {
  const inbox = (columns: string, tail = '') => `CREATE TABLE nevertwice_inbox (${columns}) ${tail}`;
  const unfit: readonly (readonly [string, string, RegExp])[] = [
    [
      'an id column STRING',
      inbox(
        'consumer INTEGER NOT NULL, key STRING NOT NULL, at INTEGER NOT NULL, fp BLOB, PRIMARY KEY (consumer, key)',
      ),
      /table "nevertwice_inbox", column key: found STRING, wanted BLOB NOT NULL/,
    ],
    [
      'an id column TEXT',
      inbox('consumer INTEGER NOT NULL, key TEXT NOT NULL, at INTEGER NOT NULL, fp BLOB, PRIMARY KEY (consumer, key)'),
      /column key: found TEXT, wanted BLOB NOT NULL/,
    ],
    [
      'an id column that takes NULL, in a key that then holds it twice',
      inbox('consumer INTEGER NOT NULL, key BLOB, at INTEGER NOT NULL, fp BLOB, PRIMARY KEY (consumer, key)'),
      /column key: found BLOB, NULL allowed, wanted BLOB NOT NULL/,
    ],
    [
      'no key at all',
      inbox('consumer INTEGER NOT NULL, key BLOB NOT NULL, at INTEGER NOT NULL, fp BLOB'),
      /column consumer, key: found no unique key, wanted UNIQUE/,
    ],
    [
      'a key that is not unique',
      `${inbox('consumer INTEGER NOT NULL, key BLOB NOT NULL, at INTEGER NOT NULL, fp BLOB')};
       CREATE INDEX i ON nevertwice_inbox (consumer, key)`,
      /column consumer, key: found no unique key, wanted UNIQUE/,
    ],
    [
      'a key without the consumer',
      inbox('consumer INTEGER NOT NULL, key BLOB NOT NULL PRIMARY KEY, at INTEGER NOT NULL, fp BLOB'),
      /column consumer, key: found no unique key/,
    ],
    [
      'a missing column',
      inbox('consumer INTEGER NOT NULL, key BLOB NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (consumer, key)'),
      /column fp: found no such column, wanted BLOB/,
    ],
    [
      'a time with fractions',
      inbox('consumer INTEGER NOT NULL, key BLOB NOT NULL, at REAL NOT NULL, fp BLOB, PRIMARY KEY (consumer, key)'),
      /column at: found REAL, wanted INTEGER NOT NULL/,
    ],
    [
      'a column that nobody fills',
      inbox(
        'consumer INTEGER NOT NULL, key BLOB NOT NULL, at INTEGER NOT NULL, fp BLOB, host TEXT NOT NULL, PRIMARY KEY (consumer, key)',
      ),
      /column host: found an unknown column NOT NULL without a default/,
    ],
    [
      'dead letters that are unique also when closed',
      `CREATE TABLE nevertwice_dead_letters (id INTEGER PRIMARY KEY, consumer INTEGER NOT NULL, dedupe BLOB NOT NULL,
        message_id TEXT, kind TEXT NOT NULL, reason TEXT NOT NULL, attempts INTEGER NOT NULL, lane TEXT NOT NULL,
        position TEXT, type TEXT, key TEXT, time INTEGER, headers TEXT NOT NULL, payload BLOB NOT NULL,
        at INTEGER NOT NULL, closed_at INTEGER, UNIQUE (consumer, dedupe));
       CREATE INDEX nevertwice_dead_letters_open ON nevertwice_dead_letters (consumer, dedupe)`,
      /column consumer, dedupe: found no unique key, wanted UNIQUE WHERE closed_at IS NULL/,
    ],
  ];

  test.each(unfit)('%s', async (_, sql, message) => {
    using database = inMemory();
    database.exec(sql);
    const before = tablesOf(database);
    const opening = sqliteStore(database).open(consumer);
    await expect(opening).rejects.toMatchObject({ code: 'NT_SCHEMA', message: expect.stringMatching(message) });
    await expect(opening).rejects.not.toMatchObject({ message: expect.stringContaining('\n') });
    expect(tablesOf(database)).toEqual(before);
  });

  test('a table of the right shape that somebody else made is taken', async () => {
    using database = inMemory();
    database.exec(`CREATE TABLE nevertwice_inbox (consumer INT NOT NULL, key NOT NULL, at BIGINT NOT NULL, fp BLOB,
      seen_by TEXT NOT NULL DEFAULT 'us');
      CREATE UNIQUE INDEX mine ON nevertwice_inbox (key, consumer)`);
    const inbox = await sqliteStore(database).open(consumer);
    await inbox.transaction([claimOf('007'), claimOf('7')], budget, async unit =>
      expect(unit.fresh).toEqual([true, true]),
    );
    await inbox.transaction([claimOf('007'), claimOf('7')], budget, async unit =>
      expect(unit.fresh).toEqual([false, false]),
    );
  });
});

describe('migrations', () => {
  const versions = MIGRATIONS.map(({ version }) => version);

  test('auto creates the tables once; check refuses an empty database and takes what migrationSql made', async () => {
    using database = inMemory();
    const checking = sqliteStore(database, { migrate: 'check' });
    await expect(checking.open(consumer)).rejects.toMatchObject({
      code: 'NT_SCHEMA',
      message: expect.stringMatching(/lacks schema version 1, 2.*; run the statements of migrationSql/),
    });
    await expect(checking.stats()).rejects.toMatchObject({ code: 'NT_SCHEMA' });
    expect(tablesOf(database)).toEqual([]);
    expect(await checking.pendingMigrations()).toEqual(versions);
    database.exec(migrationSql());
    expect(checking.migrationSql()).toBe(migrationSql());
    expect(await checking.pendingMigrations()).toEqual([]);
    await checking.open(consumer);
    expect(await sqliteStore(database).migrate()).toEqual([]);

    using other = inMemory();
    expect(await sqliteStore(other).migrate()).toEqual(versions);
    const schemaOf = (db: DatabaseSync) => db.prepare('SELECT type, name, sql FROM sqlite_schema ORDER BY name').all();
    expect(schemaOf(other)).toEqual(schemaOf(database));
  });

  test.each([
    ['accepted', 'tables that a newer library made and that this one can still use', 1],
    ['refused', 'tables that this library is too old for', LATEST + 1],
  ])('%s: %s', async (verdict, _, needs) => {
    using database = inMemory();
    await sqliteStore(database).open(consumer);
    database.exec(`INSERT INTO nevertwice_migrations VALUES (${LATEST + 1}, ${needs}, 0)`);
    const opening = sqliteStore(database).open(consumer);
    if (verdict === 'accepted') await opening;
    else
      await expect(opening).rejects.toMatchObject({
        code: 'NT_SCHEMA',
        message: expect.stringMatching(/upgrade nevertwice/),
      });
  });

  test('names are free, and quoted', async () => {
    using database = inMemory();
    const options: SqliteOptions = { tablePrefix: 'nt "odd" ', tables: { inbox: 'select', deadLetters: "it's dead" } };
    const store = sqliteStore(database, options);
    const inbox = await store.open(consumer);
    await inbox.transaction([claimOf('m1')], budget, unit => unit.deadLetter([letterOf('01', { key: 'a' })]));
    await store.positions.save('ledger', 'l', '1');
    expect(tablesOf(database)).toEqual([
      "it's dead",
      'nt "odd" attempts',
      'nt "odd" consumers',
      'nt "odd" effects',
      'nt "odd" lane_owners',
      'nt "odd" lanes',
      'nt "odd" migrations',
      'nt "odd" outbox',
      'nt "odd" outbox_relays',
      'nt "odd" positions',
      'select',
    ]);
    expect(await store.stats()).toMatchObject([{ consumer: 'ledger', processed: 1, deadLetters: 1 }]);
    expect(database.prepare('SELECT id FROM "select_readable"').all()).toEqual([{ id: 'm1' }]);
    // Beside them, another set.
    await sqliteStore(database).open(consumer);
    expect(tablesOf(database)).toHaveLength(2 * Object.keys(SHAPES).length);
  });

  test('tables that were dropped while running are named, not taken for an outage', async () => {
    using database = inMemory();
    const inbox = await sqliteStore(database).open(consumer);
    database.exec('DROP TABLE nevertwice_inbox');
    await expect(inbox.transaction([claimOf('m1')], budget, nothing)).rejects.toMatchObject({ code: 'NT_SCHEMA' });
    expect(database.isTransaction).toBe(false);
  });
});

describe('start-up', () => {
  test.each(Object.keys(clients))('a file that is no database is refused in one line (%s)', async client => {
    const { path, remove } = temporaryFile();
    writeFileSync(path, 'certainly no database '.repeat(500));
    const database = clients[client]!(path);
    const error = await (async () => sqliteStore(database).open(consumer))().catch(thrown => thrown);
    expect(error).toMatchObject({
      code: 'NT_SCHEMA',
      message: expect.stringMatching(/is no SQLite database or is damaged/),
    });
    expect(error.message).not.toContain('\n');
    database.close();
    remove();
  });

  test('a path in a folder that is not there is a mistake in the configuration, and may be corrected', async () => {
    const { path, remove } = temporaryFile();
    const store = sqliteStore(`${path}.d/wallet.db`);
    await expect(store.open(consumer)).rejects.toMatchObject({
      code: 'NT_CONFIG',
      message: expect.stringMatching(/directory/),
    });
    const fs = await import('node:fs/promises');
    await fs.mkdir(`${path}.d`);
    await store.open(consumer);
    await store.close();
    remove();
  });

  test('a consumer without a name, and a closed handle, are refused', async () => {
    const database = new DatabaseSync(':memory:');
    const store = sqliteStore(database);
    for (const name of ['', '  ', undefined as never]) {
      await expect(store.open({ name, signature: 's/1' })).rejects.toMatchObject({ code: 'NT_CONFIG' });
    }
    const inbox = await store.open(consumer);
    database.close();
    await expect(inbox.transaction([claimOf('m1')], budget, nothing)).rejects.toMatchObject({
      code: 'NT_CONFIG',
      message: expect.stringMatching(/the database object is closed/),
    });
    expect(() => sqliteStore(database)).toThrow(expect.objectContaining({ code: 'NT_CONFIG' }));
  });

  test('another identity is refused with both signatures and what it would mean', async () => {
    using database = inMemory();
    const store = sqliteStore(database);
    await store.open({ name: 'ledger', signature: 'header:message-id/1' });
    await expect(store.open({ name: 'ledger', signature: 'path:id/1' })).rejects.toMatchObject({
      code: 'NT_CONFIG',
      message: expect.stringMatching(/"header:message-id\/1".*"path:id\/1".*done twice/),
    });
  });

  test('a position of a consumer that was never opened is refused', async () => {
    using database = inMemory();
    await expect(sqliteStore(database).positions.save('nobody', 'l', '1')).rejects.toMatchObject({ code: 'NT_CONFIG' });
  });
});

describe('what is in the tables', () => {
  test('the readable view shows consumer, id, time and fingerprint', async () => {
    using database = inMemory();
    const inbox = await sqliteStore(database).open(consumer);
    const uuid = '3f2b8c1e-0000-4000-8000-00000000abcd';
    const keys = [
      `01${uuid.replaceAll('-', '')}`,
      `02${Buffer.from('évt_123').toString('hex')}`,
      `03${'5a'.repeat(32)}`,
      '0102',
      'ff',
    ];
    const claims = keys.map(hex => ({ hex, key: Buffer.from(hex, 'hex'), fingerprint: 'ab'.repeat(16) }));
    await inbox.transaction(claims, budget, nothing);
    const rows = database.prepare('SELECT * FROM nevertwice_inbox_readable').all();
    expect(rows.map(row => row.id).sort()).toEqual(
      ['bytes:0102', 'bytes:ff', `sha256:${'5a'.repeat(32)}`, uuid, 'évt_123'].sort(),
    );
    for (const row of rows) {
      expect(row).toMatchObject({ consumer: 'ledger', fingerprint: 'ab'.repeat(16) });
      expect(row.processed_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      expect(Math.abs(Date.parse(row.processed_at as string) - Date.now())).toBeLessThan(60_000);
    }
  });

  test.each(Object.keys(clients))('a dead letter keeps everything; a redelivery updates it (%s)', async client => {
    await using wallet = await walletOn(client);
    const letter = letterOf('00ff', {
      type: 'payment',
      key: 'account-1',
      time: new Date(1_700_000_000_123),
      headers: [
        ['message-id', 'm1'],
        ['x', 'base64:AP8='],
        ['x', ''],
      ],
      payload: Uint8Array.from({ length: 256 }, (_, i) => i),
    });
    const write = (changes: object) =>
      wallet.inbox.transaction([], budget, unit => unit.deadLetter([{ ...letter, ...changes }]));
    await write({});
    await write({ reason: 'second reason', kind: 'rejected', attempts: 7 });
    const read = () =>
      wallet.database
        .prepare('SELECT *, lower(hex(payload)) AS hex, lower(hex(dedupe)) AS d FROM nevertwice_dead_letters')
        .all();
    const rows = read() as Record<string, unknown>[];
    expect(rows).toHaveLength(1);
    expect(rows[0]).toMatchObject({
      id: 1,
      d: '00ff',
      message_id: 'm1',
      kind: 'rejected',
      reason: 'second reason',
      attempts: 7,
      lane: 'payments/0',
      position: 'payments/0/17',
      type: 'payment',
      key: 'account-1',
      time: 1_700_000_000_123,
      headers: JSON.stringify(letter.headers),
      hex: Buffer.from(letter.payload).toString('hex'),
      closed_at: null,
    });
    // Once closed it blocks nothing any more, and the same message may be set aside again.
    wallet.database.exec('UPDATE nevertwice_dead_letters SET closed_at = 1');
    const blocked = await wallet.inbox.transaction([], budget, async unit => [
      ...(await unit.blockedKeys(['account-1'])),
    ]);
    expect(blocked).toEqual([]);
    await write({});
    expect(read()).toHaveLength(2);
  });

  test('a row of a UUID takes at most 120 bytes, a fingerprint included', async () => {
    const { path, remove } = temporaryFile();
    const store = sqliteStore(path);
    const inbox = await store.open(consumer);
    const bytes = async () => {
      const [row] = await store.transaction(
        (_, sql) => sql<{ n: number }>`SELECT page_count * page_size AS n FROM pragma_page_count, pragma_page_size`,
      );
      return row!.n;
    };
    const before = await bytes();
    const rows = 50_000;
    for (let i = 0; i < rows; i += 1_000) {
      const claims = Array.from({ length: 1_000 }, () => {
        const hex = `01${crypto.randomUUID().replaceAll('-', '')}`;
        return { hex, key: Buffer.from(hex, 'hex'), fingerprint: hex.slice(2) };
      });
      await inbox.transaction(claims, budget, async unit => expect(unit.fresh.every(Boolean)).toBe(true));
    }
    const perRow = ((await bytes()) - before) / rows;
    await store.close();
    remove();
    expect(perRow).toBeGreaterThan(20);
    expect(perRow).toBeLessThan(120);
  });
});
