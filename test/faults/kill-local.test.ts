import { join } from 'node:path';
import { leaseKills } from './leases/suite.ts';

leaseKills({
  name: 'local',
  kinds: ['a local file'],
  create: folder => () => ({ local: join(folder, 'leases.db') }),
});
