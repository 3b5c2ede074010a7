import { fixture } from './fixture.ts';

/** The same wallet in a file of SQLite: `DATABASE_FILE` is its path. */
export const sqliteFixture = { ...fixture, env: { DATABASE_FILE: 'sqlite' } };
