import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Not one that the system would give: while the server is down, a client that tries to reach such a port may be given it
 * for its own end of the connection, and keep the server from coming back. From 15,000, and below `below`.
 */
export async function freePort(below: number, besides?: number): Promise<number> {
  for (;;) {
    const port = randomInt(15_000, below);
    if (port === besides) continue;
    const probe = createServer().listen(port, '127.0.0.1');
    const listening = await once(probe, 'listening').then(
      () => true,
      () => false,
    );
    if (!listening) continue;
    probe.close();
    await once(probe, 'close');
    return port;
  }
}
