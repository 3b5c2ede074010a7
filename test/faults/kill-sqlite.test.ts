import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { killSuite } from './kill/suite.ts';

killSuite('sqlite', 'test/faults/kill-sqlite.test.ts', {
  async create(folder) {
    return { target: join(folder, `${randomUUID()}.db`), drop: async () => undefined };
  },
});
