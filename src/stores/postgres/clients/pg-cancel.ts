import type { PgClientLike, PgPoolLike } from './pg-connection.ts';
import { succeedsWithin } from './reply.ts';

interface SideClient {
  connect(): Promise<unknown>;
  query(text: string, values: unknown[]): Promise<unknown>;
  end(): Promise<unknown>;
  on(event: 'error', listener: () => void): unknown;
  readonly connection?: { readonly stream?: { destroy(): unknown } };
}

/**
 * Cancels what runs on the server for `client`, over a connection of its own with the pool's settings: a connection
 * from the pool might never come, and closing our socket does not stop a statement that the server is busy with.
 */
export async function cancelBackend(pool: PgPoolLike, client: PgClientLike, timeoutMs: number): Promise<void> {
  const pid = client.processID;
  const Client = pool.Client;
  if (typeof pid !== 'number' || Client === undefined) return;
  const side = new Client({ ...pool.options, pipeline: false, connectionTimeoutMillis: timeoutMs }) as SideClient;
  side.on('error', () => undefined);
  const asked = side.connect().then(async () => {
    await side.query('SELECT pg_cancel_backend($1)', [pid]);
    await side.end();
  });
  // Where it fails, the rollback that follows is bounded and destroys the connection; the server then ends the backend.
  if (!(await succeedsWithin(timeoutMs, asked))) side.connection?.stream?.destroy();
}
