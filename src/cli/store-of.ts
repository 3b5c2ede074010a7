import { existsSync } from 'node:fs';
import { CommandError } from './command-error.ts';
import { loadConsumer } from './load-consumer.ts';
import { type OpenedStore, openStore, STORE_FORMS } from './store-url.ts';

export type { Migrations } from './store-url.ts';

/**
 * Runs `work` on the store of a URL, or of the consumer that a module exports, with its name; the URL wins. What was opened here is
 * closed here.
 *
 * @throws CommandError when neither names a store
 */
export async function withStore<R>(
  command: string,
  module: string | undefined,
  url: string | undefined,
  work: (store: OpenedStore['store'], consumer: string | undefined) => Promise<R>,
): Promise<R> {
  const { store, close, consumer } = await find(command, module, url);
  try {
    return await work(store, consumer);
  } finally {
    await close();
  }
}

async function find(
  command: string,
  module: string | undefined,
  url: string | undefined,
): Promise<OpenedStore & { readonly consumer?: string }> {
  if (url !== undefined) return openStore(url);
  if (module === undefined) {
    throw new CommandError(`${command} needs a store; give --store URL (${STORE_FORMS}), or a module that has one`);
  }
  const { name, store } = await loadConsumer(module);
  if (store === undefined) {
    throw new CommandError(`consumer ${name} has no store of its own; give --store URL (${STORE_FORMS})`);
  }
  return { store, close: () => store.close(), consumer: name };
}

/** A question must not create the file that it asks about. */
export function assertThere(url: string | undefined): void {
  const [, path] = /^sqlite:(?:\/\/)?(.+)$/is.exec(url ?? '') ?? [];
  if (path === undefined || path === ':memory:' || existsSync(path)) return;
  throw new CommandError(`there is no file ${path}; a consumer creates it at its first start`);
}
