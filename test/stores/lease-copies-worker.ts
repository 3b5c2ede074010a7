// One of several processes that are given copies of one message at once, on one lease store: `node lease-copies-worker.ts
// '<LeaseTarget as JSON>' <file of effects> <copies>`. Prints the outcomes as JSON.
import { once } from 'node:events';
import { appendFileSync } from 'node:fs';
import { createInbox } from '../../src/index.ts';
import { type LeaseTarget, openTarget } from './lease-targets.ts';

const [target, effects, copies] = process.argv.slice(2) as [string, string, string];
console.log('ready');
process.stdin.resume();
await once(process.stdin, 'end');

const { store, close } = await openTarget(JSON.parse(target) as LeaseTarget);
const inbox = createInbox({ name: 'pay', store });
const outcomes = await Promise.all(
  Array.from({ length: Number(copies) }, () =>
    inbox.process({ id: 'm1', body: { amount: 500 } }, async () => {
      appendFileSync(effects, 'm1\n');
      return { by: process.pid };
    }),
  ),
);
await close();
console.log(JSON.stringify(outcomes));
