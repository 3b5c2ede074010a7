import { freshDatabase } from '../support/postgres.ts';
import { killSuite } from './kill/suite.ts';

killSuite('postgres', 'test/faults/kill-postgres.test.ts', {
  async create() {
    const database = await freshDatabase();
    return { target: database.url, drop: () => database.drop() };
  },
});
