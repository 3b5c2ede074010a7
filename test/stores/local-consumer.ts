// One of several processes that are given copies of one message at once, on one file: `node local-consumer.ts <file>
// <file of effects> <copies>`. Prints the outcomes as JSON.
import { once } from 'node:events';
import { appendFileSync } from 'node:fs';
import { createInbox } from '../../src/index.ts';
import { localStore } from '../../src/stores/local/index.ts';

const [path, effects, copies] = process.argv.slice(2) as [string, string, string];
console.log('ready');
process.stdin.resume();
await once(process.stdin, 'end');

const store = localStore(path);
const inbox = createInbox({ name: 'pay', store });
const outcomes = await Promise.all(
  Array.from({ length: Number(copies) }, () =>
    inbox.process({ id: 'm1', body: { amount: 500 } }, async () => {
      appendFileSync(effects, 'm1\n');
      return { by: process.pid };
    }),
  ),
);
await store.close();
console.log(JSON.stringify(outcomes));
