import { quoteIdentifier } from '../../sql/identifiers.ts';
import type { Listening } from '../driver.ts';
import type { CheckedOut, PgClientLike } from './pg-connection.ts';
import { within } from './reply.ts';

/** What we hear on a client of `pg`. */
interface Hearing {
  on(event: 'notification', listener: (message: { channel: string; payload?: string }) => void): unknown;
  on(event: 'error' | 'end', listener: () => void): unknown;
}

/** Listens on a connection that was taken for this alone. It is thrown away afterwards: nobody else must get what it hears. */
export async function listenOn(
  connection: CheckedOut,
  channel: string,
  heard: (payload: string) => void,
  replyTimeoutMs: number,
): Promise<Listening> {
  const client = connection.client as PgClientLike & Hearing;
  const closed = Promise.withResolvers<void>();
  client.on('error', () => closed.resolve());
  client.on('end', () => closed.resolve());
  client.on('notification', message => {
    if (message.channel === channel) heard(message.payload ?? '');
  });
  try {
    await within(replyTimeoutMs, client.query(`LISTEN ${quoteIdentifier(channel)}`));
  } catch (error) {
    connection.destroy();
    throw error;
  }
  let open = true;
  return {
    closed: closed.promise,
    close: () => {
      if (!open) return;
      open = false;
      closed.resolve();
      connection.destroy();
    },
  };
}
