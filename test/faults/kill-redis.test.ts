import { freshPrefix } from '../stores/redis-clients.ts';
import { redisUrl } from '../support/redis.ts';
import { leaseKills } from './leases/suite.ts';

leaseKills({
  name: 'redis',
  kinds: ['node-redis', 'ioredis'],
  create() {
    const prefix = freshPrefix();
    return client => ({ redis: redisUrl(), prefix, client });
  },
});
