import { test } from 'vitest';
import { memoryStore } from '../../src/stores/memory/index.ts';
import { checkLeaseMachine } from './lease-model.ts';

test('the lease machine does what its model says, in memory', async () => {
  await checkLeaseMachine(500, async () => {
    let now = 1_700_000_000_000;
    const passTime = async (ms: number) => {
      now += ms;
    };
    const store = memoryStore({ clock: { now: () => now, random: Math.random } });
    return { store, passTime, completesAgain: false };
  });
});
