import { test } from 'vitest';
import { localStore } from '../../src/stores/local/index.ts';
import { checkLeaseMachine } from './lease-model.ts';
import { temporaryPath, wallClock } from './local-support.ts';

test('the lease machine does what its model says, in a local file', async () => {
  const { path, remove } = temporaryPath();
  let files = 0;
  await checkLeaseMachine(150, async () => {
    const clock = wallClock();
    const store = localStore(`${path}.${files++}`, { clock });
    return { store, passTime: async ms => clock.pass(ms), completesAgain: false };
  });
  remove();
});
