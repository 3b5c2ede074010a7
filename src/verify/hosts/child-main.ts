// A process with the user's handler in it: waits for deliveries, calls it, and says what came of it.
import { flushCompileCache } from 'node:module';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { resolveOwnPackage } from '../../cli/own-package.ts';
import { watchClock } from './clock.ts';
import { loadHandler } from './load-handler.ts';
import type { ChildSettings, FromChild, ToChild } from './protocol.ts';
import { Requests } from './requests.ts';
import { watchUngated } from './ungated.ts';

const settings = JSON.parse(process.argv[2]!) as ChildSettings;
const say = (message: FromChild) => void process.send?.(message);
const requests = new Requests(say);

resolveOwnPackage();
const clock = watchClock();
const ungated = watchUngated(settings.gated, what => say({ say: 'ungated', what }));
try {
  // Before the user's module takes the methods that are replaced.
  const holdSqlite = await (settings.sqlite === undefined
    ? undefined
    : import('./sqlite-gate.ts').then(({ gateSqlite }) =>
        gateSqlite(settings.sqlite!, what => say({ say: 'ungated', what })),
      ));
  const handle = await loadHandler(settings);
  holdSqlite?.();
  process.on('message', (message: ToChild) => {
    if (message.say === 'answer') requests.answered(message.request, message.error);
    else if (message.say === 'deliver') void deliver(message);
    else setImmediate(() => say({ say: 'pong' }));
  });
  process.on('disconnect', () => process.exit(0));
  // By itself Node.js writes what it has compiled when a process ends, and this one will be killed. Types are stripped then,
  // too: the next start takes 105 ms instead of 200.
  flushCompileCache();
  say({ say: 'ready' });

  async function deliver({
    delivery,
    messages,
    attempt,
    aheadMs,
  }: Extract<ToChild, { say: 'deliver' }>): Promise<void> {
    let error: string | undefined;
    ungated.began();
    clock.began(aheadMs);
    try {
      await handle(messages, { ...requests.broker, attempt });
    } catch (thrown) {
      error = thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : String(thrown);
    }
    // What the handler began and did not wait for is on its way by then, if it goes anywhere now.
    await nextTurn();
    await nextTurn();
    ungated.ended();
    const readClock = clock.ended();
    say({ say: 'done', delivery, readClock, ...(error === undefined ? {} : { error: error.slice(0, 300) }) });
  }
} catch (error) {
  const { whyBroken } = await import('./why-broken.ts');
  say({ say: 'broken', why: await whyBroken(error, settings.module) });
}
