import { existsSync, statSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Consumer } from '../create-consumer.ts';
import type { Relay } from '../outbox/create-relay.ts';
import { CommandError } from './command-error.ts';
import { explainImport } from './import-failure.ts';
import { resolveOwnPackage } from './own-package.ts';

/**
 * The consumer that a module exports by default. TypeScript loads by Node's own type stripping.
 *
 * @param path as it was typed, relative to the working directory
 * @throws CommandError for a module that is not there, cannot be loaded, or exports something else; what the module's
 * own code throws passes as it is
 */
export function loadConsumer(path: string): Promise<Consumer> {
  return loadDefault(path, isConsumer, { noun: 'consumer', example: 'createConsumer({ name, handle, … })' });
}

/** The relay that a module exports by default; as above. */
export function loadRelay(path: string): Promise<Relay> {
  return loadDefault(path, isRelay, { noun: 'relay', example: 'createRelay({ store, destination })' });
}

async function loadDefault<T>(
  path: string,
  isWanted: (value: unknown) => value is T,
  { noun, example }: { readonly noun: string; readonly example: string },
): Promise<T> {
  const file = resolve(path);
  if (!existsSync(file)) throw new CommandError(`module ${path} does not exist (looked for ${file})`);
  if (statSync(file).isDirectory()) throw new CommandError(`module ${path} is a directory; name the file in it`);

  resolveOwnPackage();
  // A syntax error of plain JavaScript does not say where it is; it is in the file that was loaded last.
  let loading = pathToFileURL(file).href;
  const watching = registerHooks({
    load(url, context, next) {
      loading = url;
      return next(url, context);
    },
  });
  let exported: Record<string, unknown>;
  try {
    exported = (await import(pathToFileURL(file).href)) as Record<string, unknown>;
  } catch (error) {
    if (!(error instanceof Error)) throw new CommandError(`module ${path} threw ${String(error)} while it was loading`);
    throw await explainImport(error, loading);
  } finally {
    watching.deregister();
  }
  const wanted = [exported.default, (exported.default as { default?: unknown } | undefined)?.default].find(isWanted);
  if (wanted === undefined) {
    throw new CommandError(`module ${path} ${whatIsWrong(exported, noun)}; it must have: export default ${example}`);
  }
  return wanted;
}

// By shape: the module may have another copy of the package than the one that runs it.
function isConsumer(value: unknown): value is Consumer {
  if (typeof value !== 'object' || value === null) return false;
  const { name, run, stop, summary } = value as Partial<Consumer>;
  return typeof name === 'string' && typeof run === 'function' && typeof stop === 'function' && summary !== undefined;
}

function isRelay(value: unknown): value is Relay {
  if (typeof value !== 'object' || value === null) return false;
  const { run, stop, summary, store } = value as Partial<Relay>;
  return typeof run === 'function' && typeof stop === 'function' && summary !== undefined && store !== undefined;
}

function whatIsWrong(exported: Record<string, unknown>, noun: string): string {
  if (!('default' in exported)) return 'has no default export';
  const { default: value } = exported;
  if (value instanceof Promise) return 'exports a promise by default, which needs an await';
  return `exports ${value === null ? 'null' : typeof value === 'object' ? 'an object' : `a ${typeof value}`} by default, and no ${noun}`;
}
