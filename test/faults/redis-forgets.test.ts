import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { encodeKey } from '../../src/identity/encoding.ts';
import { createConsumer, type LeaseContext, type LeaseState, type Message } from '../../src/index.ts';
import { memoryBroker, memorySource } from '../../src/memory.ts';
import { type ClientKind, openStore, singleClients, type TestClient } from '../stores/redis-clients.ts';
import { KILLS } from '../support/counts.ts';
import { SEED, seeded } from '../support/random.ts';
import { type RedisServer, startRedis } from '../support/redis.ts';
import { until } from '../support/until.ts';
import { CONSUMER, REGISTRATION } from './leases/job.ts';

const LANES = 8;
const FLUSHES = Math.min(KILLS, 200);
const clean = { conflicts: 0, deadLetters: 0, failed: 0 };

let server: RedisServer;
let admin: TestClient;
beforeAll(async () => {
  server = await startRedis();
  admin = await singleClients[1]!.connect(server.url);
});
afterAll(async () => {
  await admin.end();
  await server.stop();
});

const closing: (() => Promise<void>)[] = [];
beforeEach(async () => {
  await admin.command('FLUSHALL');
});
afterEach(async () => {
  await Promise.all(closing.splice(0).map(close => close()));
});

async function opened(kind: ClientKind) {
  const { store, close } = await openStore(kind, server.url);
  closing.push(close);
  return store;
}

/** Effects, with their tokens in the order in which they came. */
class Effects {
  readonly tokens = new Map<string, bigint[]>();
  total = 0;

  add(id: string, token: bigint): void {
    this.tokens.set(id, [...(this.tokens.get(id) ?? []), token]);
    this.total++;
  }

  get fallingTokens(): readonly string[] {
    const rise = (tokens: readonly bigint[]) => tokens.every((token, i) => i === 0 || token > tokens[i - 1]!);
    return [...this.tokens].flatMap(([id, tokens]) => (rise(tokens) ? [] : [id]));
  }

  get twice(): readonly string[] {
    return [...this.tokens].flatMap(([id, { length }]) => (length === 2 ? [id] : []));
  }
}

test.for(singleClients)(
  'C87: FLUSHALL while eight lanes are at work: nothing is lost and the run ends; what was in hand is refused and handled again, and what was done before and comes again is handled again, with $name',
  async kind => {
    const store = await opened(kind);
    const inbox = await (await opened(kind)).open(REGISTRATION);
    const broker = memoryBroker({ partitions: LANES });
    const ids = Array.from({ length: 100 * LANES }, (_, i) => `m${i}`);
    for (const id of ids) broker.send({ id });
    const effects = new Effects();
    const goOn = Promise.withResolvers<void>();
    let started = 0;
    const consumer = createConsumer({
      ...CONSUMER,
      store,
      source: broker.source({ finite: true }),
      concurrency: LANES,
      maxBatch: 4,
      handle: async ({ id }: Message<unknown>, { token }: LeaseContext) => {
        // Less than a lane has, so that afterwards each of them has a handler that stands here.
        if (++started > 100) await goOn.promise;
        effects.add(id, token);
      },
    });
    const running = consumer.run();
    await until('all lanes are held', () => started === 100 + LANES);
    const idsIn = async (state: LeaseState['state']) => {
      const states = await inbox.inspect(ids.map(encodeKey));
      return ids.filter((_, i) => states[i]!.state === state);
    };
    await until('what was done is recorded', async () => (await idsIn('done')).length === 100);
    const inHand = await idsIn('claimed');
    const again = (await idsIn('done')).slice(0, 5);
    expect(inHand.length).toBeGreaterThanOrEqual(LANES);

    await admin.command('FLUSHALL');
    expect(await idsIn('absent')).toEqual(ids);
    for (const id of again) expect(broker.redeliver(id)).toBe(1);
    // Done after it was all forgotten, so that its copy is one.
    broker.redeliver(ids.at(-1)!, { as: 'resend' });
    goOn.resolve();

    expect(await running).toEqual({ ...clean, processed: ids.length + again.length, duplicates: 1 });
    expect([...effects.tokens.keys()].sort()).toEqual([...ids].sort());
    expect([...effects.twice].sort()).toEqual([...inHand, ...again].sort());
    expect(effects.total).toBe(ids.length + inHand.length + again.length);
    expect(effects.fallingTokens).toEqual([]);
    expect(store.staleCalls).toBe(inHand.length);
  },
);

test.for(singleClients)(
  `C87: ${FLUSHES} times FLUSHALL at any moment, seed ${SEED}: nothing is lost, each delivery has one outcome, and there is one refusal for each effect too many in hand, with $name`,
  { timeout: 30_000 + FLUSHES * 500 },
  async kind => {
    const random = seeded(SEED);
    const store = await opened(kind);
    const broker = memoryBroker({ partitions: LANES });
    const ids = Array.from({ length: 200 * FLUSHES }, (_, i) => `m${i}`);
    let copies = 0;
    for (const id of ids) {
      broker.send({ id });
      if (random.chance(0.1)) copies += broker.redeliver(ids[random.below(ids.indexOf(id) + 1)]!, { as: 'resend' });
    }
    const effects = new Effects();
    const consumer = createConsumer({
      ...CONSUMER,
      store,
      source: broker.source({ finite: true }),
      concurrency: LANES,
      maxBatch: 10,
      handle: async ({ id }: Message<unknown>, { token }: LeaseContext) => effects.add(id, token),
    });
    const running = consumer.run();
    for (let i = 0; i < FLUSHES; i++) {
      const enough = effects.total + 1 + random.below(100);
      await until('work goes on', () => effects.total >= enough);
      await admin.command('FLUSHALL');
    }
    const summary = await running;
    expect(summary).toMatchObject(clean);
    expect(summary.processed + summary.duplicates).toBe(ids.length + copies);
    expect(effects.tokens.size).toBe(ids.length);
    expect(effects.total).toBe(summary.processed + store.staleCalls);
    expect(effects.fallingTokens).toEqual([]);
    expect(store.staleCalls).toBeGreaterThan(0);
  },
);

test('C87: FLUSHALL forgets who the consumers are: who runs goes on unnamed, and who starts next is registered, whatever its identity', async () => {
  const store = await opened(singleClients[0]!);
  const running = await store.open(REGISTRATION);
  const m1 = encodeKey('m1');
  const complete = async () => {
    const [grant] = await running.claim([m1], 60_000);
    expect(grant!.answer.answer).toBe('fresh');
    return running.complete([{ claim: m1, nonce: grant!.nonce! }]);
  };
  expect(await complete()).toEqual([true]);
  expect(await store.stats()).toMatchObject([{ consumer: CONSUMER.name, processed: 1 }]);

  await admin.command('FLUSHALL');
  expect(await store.stats()).toEqual([]);
  expect(await complete()).toEqual([true]);
  expect(await store.stats()).toEqual([]);

  const another = await opened(singleClients[1]!);
  await another.open({ ...REGISTRATION, signature: 'another identity' });
  expect(await store.stats()).toMatchObject([{ consumer: CONSUMER.name, processed: 1 }]);
  await expect(store.open(REGISTRATION)).rejects.toMatchObject({
    code: 'NT_CONFIG',
    message: expect.stringContaining('another identity'),
  });
});

/** A downstream that takes an effect only with a token that is higher than the last one for the message. */
class FencedSink {
  readonly taken: bigint[] = [];
  readonly refused: bigint[] = [];

  write(token: bigint): void {
    (token > (this.taken.at(-1) ?? 0n) ? this.taken : this.refused).push(token);
  }
}

test.for(singleClients)(
  'C85 C87: an id that is evicted in mid-lease gets a second owner with a higher token; what the first one writes after that is refused by a sink that looks at the token, and it completes nothing, with $name',
  async kind => {
    const [storeA, storeB] = [await opened(kind), await opened(kind)];
    const sink = new FencedSink();
    const started = Promise.withResolvers<bigint>();
    const goOn = Promise.withResolvers<void>();
    const first = createConsumer({
      ...CONSUMER,
      store: storeA,
      source: memorySource([{ id: 'm1' }]),
      handle: async (_: Message<unknown>, { token }: LeaseContext) => {
        started.resolve(token);
        await goOn.promise;
        sink.write(token);
      },
    });
    const second = createConsumer({
      ...CONSUMER,
      store: storeB,
      source: memorySource([{ id: 'm1' }]),
      // It would be busy otherwise, and handed back.
      busyWaitMs: 0,
      handle: (_: Message<unknown>, { token }: LeaseContext) => sink.write(token),
    });
    const running = first.run();
    const lower = await started.promise;
    const keys = (await admin.command('KEYS', `*:${encodeKey('m1').hex}`)) as readonly string[];
    expect(keys).toHaveLength(1);
    expect(await admin.command('DEL', keys[0]!)).toBe(1);
    expect(await second.run()).toMatchObject({ ...clean, processed: 1, duplicates: 0 });
    expect(sink.taken).toEqual([expect.any(BigInt)]);
    expect(sink.taken[0]!).toBeGreaterThan(lower);
    goOn.resolve();
    expect(await running).toMatchObject({ ...clean, processed: 0, duplicates: 1 });
    expect(sink.refused).toEqual([lower]);
    expect(sink.taken).toHaveLength(1);
    expect([storeA.staleCalls, storeB.staleCalls]).toEqual([1, 0]);
  },
);
