import { openStore } from '../../cli/store-url.ts';
import type { Store } from '../../ports/store.ts';

/** For a consumer that has no store of its own: the database that it is verified on. */
export async function storeFor(): Promise<Store> {
  const url = process.env.DATABASE_URL;
  if (url === undefined)
    throw new Error('the consumer has no store; give it one, or the environment DATABASE_URL=postgres');
  return (await openStore(url)).store as Store;
}
