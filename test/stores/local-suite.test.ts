import { test } from 'vitest';
import { leaseStoreSuite } from '../../src/conformance/index.ts';
import { localStore } from '../../src/stores/local/index.ts';
import { temporaryPath, wallClock } from './local-support.ts';

leaseStoreSuite({
  test,
  name: 'local',
  create: async () => {
    const { path, remove } = temporaryPath();
    const clock = wallClock(Date.now());
    const stores = [localStore(path, { clock })];
    return {
      store: stores[0]!,
      secondStore: () => {
        const second = localStore(path, { clock });
        stores.push(second);
        return second;
      },
      passTime: async ms => clock.pass(ms),
      async close() {
        for (const store of stores) await store.close();
        remove();
      },
    };
  },
});
