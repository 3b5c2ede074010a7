import { test } from 'vitest';
import { leaseStoreSuite } from '../../src/conformance/index.ts';
import { memoryStore } from '../../src/stores/memory/index.ts';

leaseStoreSuite({
  test,
  name: 'memory',
  create: async () => {
    let now = Date.now();
    const store = memoryStore({ clock: { now: () => now, random: Math.random } });
    const passTime = async (ms: number) => {
      now += ms;
    };
    return { store, passTime, close: () => store.close() };
  },
});
