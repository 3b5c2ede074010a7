import type { Consumer } from '../../create-consumer.ts';
import type { VerifyMessage } from '../options.ts';
import type { ChildSettings } from './protocol.ts';

/** One delivery to the user's code; it rejects when the messages are to come again. */
export type Handle = (messages: readonly VerifyMessage[], broker: object) => Promise<void>;

type Handler = (message: unknown, broker: object) => unknown;

/**
 * The handler of a module: the export that was named, or `default`, or the only function. A consumer of this library is
 * one, too.
 */
export async function loadHandler(settings: ChildSettings): Promise<Handle> {
  const exported = (await import(settings.module)) as Record<string, unknown>;
  const found = pick(exported, settings.export);
  if (isConsumer(found)) return ofConsumer(found);
  const handler = found as Handler;
  return async (messages, broker) => {
    await handler(settings.batch ? messages : messages[0], broker);
  };
}

function pick(exported: Record<string, unknown>, name: string | undefined): unknown {
  if (name !== undefined) {
    if (isHandler(exported[name])) return exported[name];
    throw new Error(
      `the module exports no function or consumer ${name}; it has ${Object.keys(exported).join(', ') || 'no exports'}`,
    );
  }
  const candidates = [exported.default, exported.handle, ...Object.values(exported)];
  const found = candidates.find(isHandler);
  if (found !== undefined) return found;
  throw new Error('the module exports no handler; it must have: export default async function (message) { … }');
}

function isHandler(value: unknown): boolean {
  return typeof value === 'function' || isConsumer(value);
}

// By shape: the module may have another copy of the package.
function isConsumer(value: unknown): value is Consumer {
  if (typeof value !== 'object' || value === null) return false;
  const { name, run, stop, summary } = value as Partial<Consumer>;
  return typeof name === 'string' && typeof run === 'function' && typeof stop === 'function' && summary !== undefined;
}

async function ofConsumer(consumer: Consumer): Promise<Handle> {
  // Only here: a process that is started for each crash must not load what its handler does not need.
  const { startConsumer } = await import('./start-consumer.ts');
  const deliver = await startConsumer(consumer);
  return async messages => {
    const results = await Promise.all(messages.map(deliver));
    if (results.includes('not acked')) throw new Error('not acked');
  };
}
