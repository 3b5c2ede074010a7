// The program of the child processes: `node service-process <service> <database> [<fuse as JSON>]`.
import { flushCompileCache } from 'node:module';
import type { Step } from '../../ports/points.ts';
import { bridgedSource } from './bridge/service-side.ts';
import type { Fuse } from './schedule.ts';
import type { Service } from './services/service.ts';

const SERVICES: Readonly<Record<string, () => Promise<Service>>> = {
  naive: async () => (await import('./services/naive.ts')).naive,
  'check-then-act': async () => (await import('./services/check-then-act.ts')).checkThenAct,
  'mark-first': async () => (await import('./services/mark-first.ts')).markFirst,
  nevertwice: async () => (await import('./services/nevertwice.ts')).nevertwice,
};

const [name = '', file = '', fuseText] = process.argv.slice(2);
const fuse = fuseText === undefined ? undefined : (JSON.parse(fuseText) as Fuse);
let passed = 0;

/** Named points of the path. At the one that the fuse names, this process is gone at once: nothing is cleaned up. */
async function reach(step: Step, edge: 'before' | 'after', messages = 1): Promise<void> {
  if (fuse === undefined || fuse.step !== step || fuse.edge !== edge) return;
  passed += messages;
  if (passed >= fuse.messages) process.kill(process.pid, 'SIGKILL');
}

// Without its broker, as when the demo was ended, there is nothing left to do.
process.once('disconnect', () => process.exit());
if (!process.connected) process.exit();

const service = await SERVICES[name]?.();
if (service === undefined) throw new Error(`there is no service ${name}`);
// The next start of the same service need not compile it again; a killed process would not have kept that by itself.
flushCompileCache();
const { source, stopped } = bridgedSource(deliveries => reach('receive', 'after', deliveries));
await service({ source, stopped, file, reach });
process.exit();
