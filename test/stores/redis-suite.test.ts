import { test } from 'vitest';
import { leaseStoreSuite } from '../../src/conformance/index.ts';
import { redisUrl } from '../support/redis.ts';
import { freshPrefix, openStore, singleClients } from './redis-clients.ts';

for (const kind of singleClients) {
  leaseStoreSuite({
    test,
    name: kind.name,
    create: async () => {
      const prefix = freshPrefix();
      const opened = [await openStore(kind, redisUrl(), { prefix })];
      return {
        store: opened[0]!.store,
        secondStore: async () => {
          opened.push(await openStore(kind, redisUrl(), { prefix }));
          return opened.at(-1)!.store;
        },
        close: async () => {
          await Promise.all(opened.map(one => one.close()));
        },
      };
    },
  });
}
