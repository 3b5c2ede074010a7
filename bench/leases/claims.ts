import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';
import { encodeKey } from '../../src/identity/encoding.ts';
import { nodeRedis, redisStore } from '../../src/stores/redis/index.ts';
import type { Contestant } from '../contest.ts';

const LEASE_MS = 60_000;
/** Callers at a time of the single calls, and messages of one claim. */
const CALLERS = 50;
const BATCH = 500;
/** Batches at a time, as with so many lanes. */
const LANES = 4;

/** `SET NX PX` for each message, as it is written by hand. */
export function singleSets(id: string, url: string, events: number): Contestant {
  return withClient(id, url, events, async (client, ids) => {
    let next = 0;
    let fresh = 0;
    const caller = async () => {
      for (let i = next++; i < ids.length; i = next++) {
        const answer = await client.set(ids[i]!, '1', { condition: 'NX', expiration: { type: 'PX', value: LEASE_MS } });
        if (answer !== null) fresh++;
      }
    };
    await Promise.all(Array.from({ length: CALLERS }, caller));
    return fresh;
  });
}

/** The store's claims, a batch a call, `LANES` of them at a time. */
export function batchedClaims(id: string, url: string, events: number): Contestant {
  return withClient(id, url, events, async (client, ids) => {
    const store = redisStore(nodeRedis(client as never), { prefix: `${randomUUID()}:` });
    const inbox = await store.open({ name: 'bench', signature: 'bench' });
    let fresh = 0;
    let next = 0;
    const lane = async () => {
      const at = next;
      next += BATCH;
      if (at >= ids.length) return;
      const grants = await inbox.claim(ids.slice(at, at + BATCH).map(encodeKey), LEASE_MS);
      fresh += grants.filter(grant => grant.answer.answer === 'fresh').length;
      await lane();
    };
    await Promise.all(Array.from({ length: LANES }, lane));
    await store.close();
    return fresh;
  });
}

type Client = ReturnType<typeof createClient>;

function withClient(
  id: string,
  url: string,
  events: number,
  work: (client: Client, ids: readonly string[]) => Promise<number>,
): Contestant {
  let client: Client | undefined;
  let fresh = 0;
  return {
    id,
    events,
    async prepare() {
      client = createClient({ url });
      client.on('error', () => undefined);
      await client.connect();
      await client.flushDb();
      const ids = Array.from({ length: events }, () => randomUUID());
      const connected = client;
      return async () => {
        fresh = await work(connected, ids);
      };
    },
    async check() {
      client?.destroy();
      if (fresh !== events) throw new Error(`${fresh} of ${events} claims were fresh`);
    },
  };
}
