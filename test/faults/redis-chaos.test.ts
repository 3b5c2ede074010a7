import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Consumer, createConsumer, type LeaseContext } from '../../src/index.ts';
import { memoryBroker } from '../../src/memory.ts';
import { openStore, singleClients } from '../stores/redis-clients.ts';
import { KILLS } from '../support/counts.ts';
import { SEED, seeded } from '../support/random.ts';
import { type RedisServer, startRedis } from '../support/redis.ts';
import { until } from '../support/until.ts';

/** How often the server is away: 3 times in `npm test`, 50 times in the long run. */
const STOPS = KILLS > 20 ? 50 : 3;
const AWAY_MS = 5_000;
const SEND_EVERY_MS = 4;

let server: RedisServer;
beforeAll(async () => {
  // What it has answered is on its disk: away is not the same as forgetful.
  server = await startRedis({ settings: { appendonly: 'yes', appendfsync: 'always' } });
});
afterAll(() => server.stop());

/** A downstream that takes an effect only with a token that is not lower than the last one it saw for the message. */
class FencedSink {
  readonly #highest = new Map<string, bigint>();
  readonly effects = new Map<string, number>();

  credit(id: string, token: bigint): void {
    if (token < (this.#highest.get(id) ?? 0n)) throw new Error(`a stale owner of ${id}`);
    this.#highest.set(id, token);
    this.effects.set(id, (this.effects.get(id) ?? 0) + 1);
  }
}

test(`C89 C90: Redis is away ${STOPS} times for 5 s at random while two consumers pull: nothing lost, nothing doubled, no attempt spent (seed ${SEED})`, {
  timeout: 60_000 + STOPS * (AWAY_MS + 15_000),
}, async () => {
  const random = seeded(SEED);
  const broker = memoryBroker({ partitions: 8 });
  const sink = new FencedSink();
  const stores = await Promise.all(singleClients.map(kind => openStore(kind, server.url, { timeoutMs: 1_000 })));
  const consumers: Consumer[] = stores.map(({ store }) =>
    createConsumer({
      name: 'pay',
      source: broker.source({ group: 'pay' }),
      store,
      concurrency: 4,
      maxBatch: 10,
      handle: async (message, { token, signal }: LeaseContext) => {
        await new Promise(resolve => setTimeout(resolve, 2));
        signal.throwIfAborted();
        sink.credit(message.id, token);
      },
    }),
  );
  const running = consumers.map(consumer => consumer.run());
  let sent = 0;
  const sending = setInterval(() => {
    const id = `m${sent++}`;
    broker.send({ id });
    // A tenth of them comes twice, some as the very same record and some at a new offset.
    if (random.chance(0.1)) broker.redeliver(id, { as: random.chance(0.5) ? 'resend' : 'redelivery' });
  }, SEND_EVERY_MS);
  try {
    for (let stop = 0; stop < STOPS; stop++) {
      const before = sink.effects.size;
      const lull = performance.now() + random.below(500);
      await until('work goes on', () => sink.effects.size > before + 50 && performance.now() > lull, 30_000);
      await server.kill();
      const until5s = performance.now() + AWAY_MS;
      await until('five seconds have passed', () => performance.now() > until5s);
      await server.start();
    }
    clearInterval(sending);
    await until('everything is settled', () => broker.pending('pay') === 0, 60_000);
  } finally {
    clearInterval(sending);
    await Promise.all(consumers.map(consumer => consumer.stop({ withinMs: 1_000 })));
    await Promise.allSettled(running);
    await Promise.all(stores.map(store => store.close()));
  }
  const summaries = await Promise.all(running);
  expect([...sink.effects].filter(([, times]) => times !== 1)).toEqual([]);
  expect(sink.effects.size).toBe(sent);
  expect(summaries.map(({ failed, deadLetters, conflicts }) => failed + deadLetters + conflicts)).toEqual([0, 0]);
  expect(summaries.reduce((sum, { processed }) => sum + processed, 0)).toBeLessThanOrEqual(sent);
});
