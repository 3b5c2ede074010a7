export type { SqliteDatabase, SqliteStatement } from './database.ts';
export { migrationSql } from './migrations.ts';
export type { SqliteOptions, TableRole, Wrapping } from './options.ts';
export { type SqliteStoreHandle, sqliteStore } from './store.ts';
