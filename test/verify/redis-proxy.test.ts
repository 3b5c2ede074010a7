import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Gate } from '../../src/verify/gate.ts';
import { type RedisOptions, type RedisPlace, redisPlace } from '../../src/verify/places/redis.ts';
import { type RedisServer, redisMissing, startRedis } from '../../src/verify/servers/redis-server.ts';
import { endsWithin, until } from '../support/until.ts';
import { Desk } from './desk.ts';

const missing = await redisMissing();
const closing: (() => Promise<unknown> | unknown)[] = [];

let server: RedisServer;
/** Past every gate. */
let direct: Redis;
let place: RedisPlace;
let desk: Desk;
let gate: { readonly proxy: Gate; readonly url: string };

async function open(options: Partial<RedisOptions> = {}): Promise<RedisPlace> {
  const opened = await redisPlace({
    url: server.url,
    own: true,
    compare: true,
    ignore: [],
    accept: [],
    ...options,
  });
  closing.push(() => opened.close());
  return opened;
}

function ioredis(url: string, options = {}): Redis {
  const client = new Redis(url, { retryStrategy: () => null, ...options });
  client.on('error', () => undefined);
  closing.push(() => client.disconnect());
  return client;
}

async function nodeRedis(url: string, RESP: 2 | 3) {
  const client = createClient({ url, RESP, socket: { reconnectStrategy: false } });
  client.on('error', () => undefined);
  await client.connect();
  closing.push(() => client.destroy());
  return client;
}

describe.skipIf(missing !== undefined)(
  `a gate in front of Redis${missing === undefined ? '' : ` (${missing})`}`,
  () => {
    beforeAll(async () => {
      server = await startRedis();
      direct = new Redis(server.url);
    });
    afterAll(async () => {
      direct?.disconnect();
      await server?.stop();
    });
    beforeEach(async () => {
      await direct.flushall();
      place = await open();
      desk = new Desk();
      gate = await place.gate(desk.onHeld);
      closing.push(() => gate.proxy.close());
    });
    afterEach(async () => {
      for (const close of closing.splice(0).reverse()) await close();
    });

    test('holds each command until it is sent, and its reply until it is answered', async () => {
      const client = ioredis(gate.url);
      let seen: unknown;
      const reply = client.set('a', 'one two').then(value => {
        seen = value;
      });
      const held = await desk.next();
      expect(held).toMatchObject({ place: 'redis', connection: 1, text: "SET a 'one two'", quiet: false, gone: false });
      expect(await direct.get('a')).toBeNull();
      expect(await held.send()).toEqual({ text: 'OK', failed: false });
      expect(await direct.get('a')).toBe('one two');
      await sleep(20);
      expect(seen).toBeUndefined();
      held.answer();
      await reply;
      expect(seen).toBe('OK');
    });

    test('an error is a reply that failed', async () => {
      await direct.set('a', 'text');
      const reply = ioredis(gate.url).incr('a');
      const held = await desk.next();
      expect(await held.send()).toEqual({ text: 'ERR value is not an integer or out of range', failed: true });
      held.answer();
      await expect(reply).rejects.toThrow('not an integer');
    });

    test.each([
      ['ioredis', async () => ioredis(gate.url)],
      ['ioredis, asking whether the server is ready', async () => ioredis(gate.url, { enableReadyCheck: true, db: 0 })],
      ['redis with RESP2', () => nodeRedis(gate.url, 2)],
      ['redis with RESP3', () => nodeRedis(gate.url, 3)],
    ])('what a client says to get ready is not held: %s', async (_, made) => {
      const client = (await made()) as Redis;
      expect(await client.ping()).toBe('PONG');
      expect(desk.held).toEqual([]);
      const steps = await desk.all(Promise.all([client.set('a', '1'), client.get('a')]));
      expect(steps).toEqual(['SET a 1 → OK', 'GET a → 1']);
    });

    test('pipelined commands are held one after the other', async () => {
      const client = ioredis(gate.url);
      const pipeline = client.pipeline().set('a', '1').incr('a').get('a').exec();
      const first = await desk.next();
      await sleep(20);
      expect(desk.held).toEqual([]);
      await first.send();
      first.answer();
      expect(await desk.all(pipeline)).toEqual(['INCR a → 2', 'GET a → 2']);
      expect(await pipeline).toEqual([
        [null, 'OK'],
        [null, 2],
        [null, '2'],
      ]);
    });

    test.each([
      ['ioredis', () => ioredis(gate.url).multi().incr('a').set('b', '2').exec()],
      [
        'ioredis, not pipelined',
        async () => {
          const client = ioredis(gate.url);
          await client.multi({ pipeline: false });
          await client.incr('a');
          await client.set('b', '2');
          return client.exec();
        },
      ],
      ['redis with RESP2', async () => (await nodeRedis(gate.url, 2)).multi().incr('a').set('b', '2').exec()],
      ['redis with RESP3', async () => (await nodeRedis(gate.url, 3)).multi().incr('a').set('b', '2').exec()],
    ])('MULTI to EXEC is one step: %s', async (_, multi) => {
      const done = multi();
      const held = await desk.next();
      expect(held.text).toBe('MULTI; INCR a; SET b 2; EXEC');
      expect(await direct.exists('a', 'b')).toBe(0);
      expect(await held.send()).toEqual({ text: '[1, OK]', failed: false });
      held.answer();
      expect(await done).not.toBeNull();
      expect(desk.held).toEqual([]);
    });

    test('WATCH is a step, and an EXEC that it stops comes to nothing', async () => {
      const client = ioredis(gate.url);
      const watched = client.watch('a');
      expect(await desk.step()).toBe('WATCH a → OK');
      await watched;
      await direct.set('a', 'changed');
      expect(await desk.all(client.multi().set('a', '1').exec())).toEqual(['MULTI; SET a 1; EXEC → (nil)']);
    });

    test('DISCARD leaves nothing of a MULTI in the next one', async () => {
      const client = ioredis(gate.url);
      await client.multi({ pipeline: false });
      await client.set('a', '1');
      await client.discard();
      expect(await desk.all(client.set('b', '1'))).toEqual(['SET b 1 → OK']);
      expect(await desk.all(client.multi().set('c', '1').exec())).toEqual(['MULTI; SET c 1; EXEC → [OK]']);
    });

    test('a script is one step, whether Redis knows it or not', async () => {
      const client = ioredis(gate.url);
      client.defineCommand('once', { numberOfKeys: 1, lua: `return redis.call('SET', KEYS[1], ARGV[1], 'NX')` });
      const once = () => (client as unknown as { once(key: string, value: string): Promise<unknown> }).once('a', '1');
      const [step] = await desk.all(once());
      expect(step).toMatch(/^EVAL [0-9a-f]{8} 1 a 1 → OK$/);
      // This time ioredis sends the digest only.
      expect(await desk.all(once())).toEqual([step!.replace('OK', '(nil)')]);
      await direct.script('FLUSH');
      expect(await desk.all(once())).toEqual([expect.stringMatching(/→ NOSCRIPT/), step!.replace('OK', '(nil)')]);
    });

    test('cut before it is sent, a command never happens, and what was pipelined behind it neither', async () => {
      const client = ioredis(gate.url);
      const replies = Promise.allSettled([client.incr('a'), client.incr('b')]);
      const held = await desk.next();
      await held.cut();
      expect((await replies).map(reply => reply.status)).toEqual(['rejected', 'rejected']);
      expect(await direct.exists('a', 'b')).toBe(0);
      expect(held.gone).toBe(true);
    });

    test('cut after it was sent, it has happened and the client cannot know', async () => {
      const client = ioredis(gate.url);
      const rejected = expect(client.incr('a')).rejects.toThrow();
      const held = await desk.next();
      await held.send();
      await held.cut();
      await rejected;
      expect(await direct.get('a')).toBe('1');
    });

    test('ioredis sends a command again whose reply was lost', async () => {
      const client = ioredis(gate.url, { retryStrategy: () => 1 });
      const reply = client.incr('a');
      const held = await desk.next();
      await held.send();
      await held.cut();
      expect(await desk.all(reply)).toEqual(['INCR a → 2']);
    });

    test('what a dead consumer has sent lands later, with what was pipelined behind it', async () => {
      const client = ioredis(gate.url);
      client
        .multi()
        .incr('c')
        .exec()
        .catch(() => undefined);
      await (await desk.next()).cut();
      const other = ioredis(gate.url);
      void Promise.allSettled([other.incr('a'), other.multi().incr('b').exec()]);
      const held = await desk.next();
      await gate.proxy.sever([held]);
      expect(await direct.exists('a', 'b', 'c')).toBe(0);
      expect(await held.land()).toEqual({ text: '1, then MULTI; INCR b; EXEC → [1]', failed: false });
      expect(await direct.mget('a', 'b', 'c')).toEqual(['1', '1', null]);
      expect(desk.held).toEqual([]);
      expect(await direct.client('LIST')).not.toMatch(/cmd=exec/);
    });

    test('dropped, it never lands', async () => {
      ioredis(gate.url)
        .incr('a')
        .catch(() => undefined);
      const held = await desk.next();
      await gate.proxy.sever([held]);
      await held.drop();
      await gate.proxy.close();
      expect(await direct.exists('a')).toBe(0);
    });

    test('severed, a consumer keeps its connections, and nothing gets through until it begins anew', async () => {
      const client = ioredis(gate.url);
      const refused = Promise.allSettled([client.incr('a'), client.multi().incr('a').exec(), client.incr('a')]);
      await desk.next();
      await gate.proxy.sever([]);
      const why = {
        status: 'rejected',
        reason: expect.objectContaining({ message: expect.stringContaining('cut off') }),
      };
      expect(await refused).toEqual([why, why, why]);
      await expect(ioredis(gate.url).incr('a')).rejects.toThrow('cut off');
      expect(desk.held).toEqual([]);
      gate.proxy.reopen();
      expect(await desk.all(Promise.all([client.incr('b'), client.multi().incr('b').exec()]))).toEqual([
        'INCR b → 1',
        'MULTI; INCR b; EXEC → [2]',
      ]);
      expect(await direct.exists('a')).toBe(0);
    });

    test('severed, a connection on which the server keeps something is closed', async () => {
      const [watches, waits] = [ioredis(gate.url), ioredis(gate.url)];
      await desk.all(watches.watch('a'));
      const popped = expect(waits.blpop('list', 0)).rejects.toThrow('closed');
      const held = await desk.next();
      await held.send();
      held.answer();
      await gate.proxy.sever([]);
      await popped;
      // This test's own connection, and the place's.
      expect(((await direct.client('LIST')) as string).trim().split('\n')).toHaveLength(2);
    });

    test('a client that gives up takes its command with it', async () => {
      const client = ioredis(gate.url);
      client.incr('a').catch(() => undefined);
      const held = await desk.next();
      client.disconnect();
      await until('it is gone', () => held.gone);
      expect(await direct.exists('a')).toBe(0);
    });

    test('a command that waits for another client holds up nobody but its own', async () => {
      const client = ioredis(gate.url);
      const popped = client.blpop('list', 0);
      const held = await desk.next();
      expect(await held.send()).toEqual({ text: '(waits)', failed: false });
      held.answer();
      await direct.rpush('list', 'one');
      expect(await popped).toEqual(['list', 'one']);
      expect(await desk.all(client.get('a'))).toEqual(['GET a → (nil)']);
      await direct.rpush('list', 'two');
      expect(await desk.all(client.blpop('list', 0))).toEqual(['BLPOP list 0 → [list, two]']);
    });

    test('a dead consumer that waited takes nothing any more', async () => {
      ioredis(gate.url)
        .xread('BLOCK', 0, 'STREAMS', 's', '$')
        .catch(() => undefined);
      ioredis(gate.url)
        .blpop('list', 0)
        .catch(() => undefined);
      for (let i = 0; i < 2; i++) {
        const held = await desk.next();
        expect((await held.send()).text).toBe('(waits)');
        held.answer();
      }
      await gate.proxy.sever([]);
      await direct.rpush('list', 'one');
      expect(await direct.llen('list')).toBe(1);
    });

    test.each([2, 3] as const)('subscribers hear what is published, in RESP%i', async RESP => {
      const client = await nodeRedis(gate.url, RESP);
      const heard = Promise.withResolvers<string>();
      await client.subscribe('news', message => heard.resolve(message));
      await direct.publish('news', 'hello');
      expect(await heard.promise).toBe('hello');
      expect(desk.held).toEqual([]);
      if (RESP === 3) expect(await desk.all(client.set('a', '1'))).toEqual(['SET a 1 → OK']);
    });

    test('what is not RESP closes its connection and nothing else', async () => {
      const socket = connect(gate.proxy.port, '127.0.0.1');
      socket.on('error', () => undefined);
      socket.write('*1\r\n?what\r\n');
      socket.resume();
      await endsWithin(5_000, 'the connection is closed', once(socket, 'close'));
      expect(await desk.all(ioredis(gate.url).set('a', '1'))).toEqual(['SET a 1 → OK']);
    });

    test('a big value comes through whole', async () => {
      const big = 'ä'.repeat(1_000_000);
      const client = ioredis(gate.url);
      await desk.all(client.set('a', big));
      const read = client.get('a');
      await desk.all(read);
      expect(await read).toBe(big);
    });

    test('a server that wants a password gets it', async () => {
      const guarded = await startRedis({ settings: { requirepass: 'se:cret' } });
      closing.push(() => guarded.stop());
      const url = guarded.url.replace('redis://', 'redis://:se%3Acret@');
      const other = await open({ url, own: false });
      const { proxy, url: gated } = await other.gate(desk.onHeld);
      closing.push(() => proxy.close());
      expect(await desk.all(ioredis(gated).set('a', '1'))).toEqual(['SET a 1 → OK']);
      await expect(open({ url: guarded.url })).rejects.toThrow('Redis cannot be used: NOAUTH');
    });
  },
);

describe.skipIf(missing !== undefined)('what is in Redis', () => {
  beforeAll(async () => {
    server = await startRedis();
    direct = new Redis(server.url);
  });
  afterAll(async () => {
    direct?.disconnect();
    await server?.stop();
  });
  beforeEach(() => direct.flushall());
  afterEach(async () => {
    for (const close of closing.splice(0)) await close();
  });

  test('is compared only when it is asked for', async () => {
    await direct.set('a', '1');
    expect(await (await open({ compare: false })).state()).toEqual(new Map());
  });

  test('is a row for each key, without the time that it has left', async () => {
    await direct.set('text', 'one', 'EX', 60);
    await direct.rpush('list', 'b', 'a');
    await direct.sadd('set', 'b', 'a');
    await direct.hset('hash', { b: '2', a: '1' });
    await direct.zadd('zset', 2, 'b', 1, 'a');
    await direct.xadd('stream', '*', 'a', '1');
    await direct.select(3);
    await direct.set('elsewhere', '1');
    await direct.select(0);
    const state = await (await open()).state();
    expect([...state.keys()]).toEqual(['redis', 'redis database 3']);
    expect(state.get('redis')!.toSorted((a, b) => (a.key! < b.key! ? -1 : 1))).toEqual([
      { key: 'hash', type: 'hash', value: '{"a":"1","b":"2"}' },
      { key: 'list', type: 'list', value: '["b","a"]' },
      { key: 'set', type: 'set', value: '["a","b"]' },
      { key: 'stream', type: 'stream', value: '[[["a","1"]]]' },
      { key: 'text', type: 'string', value: 'one' },
      { key: 'zset', type: 'zset', value: '{"a":"1","b":"2"}' },
    ]);
    expect(state.get('redis database 3')).toEqual([{ key: 'elsewhere', type: 'string', value: '1' }]);
  });

  test('leaves out the keys that are ignored, and counts apart those that may come twice', async () => {
    await direct.mset('cache:a', '1', 'seen:b', '2', 'c', '3');
    const state = await (await open({ ignore: ['redis cache:*'], accept: ['redis seen:*'] })).state();
    expect(state.get('redis')!.map(row => row.key)).toEqual(['c']);
    expect(state.get('redis seen:*')!.map(row => row.key)).toEqual(['seen:b']);
  });

  test('is deleted by a reset, all of it on a server of our own, else in the database of the URL', async () => {
    const fill = async () => {
      await direct.set('a', '1');
      await direct.select(3);
      await direct.set('b', '1');
      await direct.select(0);
    };
    await fill();
    await (await open({ url: `${server.url}/3`, own: false })).reset();
    expect(await direct.info('keyspace')).toMatch(/db0:keys=1/);
    expect(await direct.info('keyspace')).not.toMatch(/db3/);
    await fill();
    await (await open()).reset();
    expect(await direct.info('keyspace')).not.toMatch(/db\d/);
  });

  test('loses the keys of patterns, in every database, and nothing else', async () => {
    await direct.mset('lock:a', '1', 'lock:b', '1', 'a', '1');
    await direct.select(3);
    await direct.set('lock:c', '1');
    await direct.select(0);
    await (await open()).remove(['lock:*', 'none:*']);
    expect(await direct.keys('*')).toEqual(['a']);
    expect(await direct.info('keyspace')).not.toMatch(/db3/);
  });

  test.each([
    ['redis://127.0.0.1:1', /^Redis cannot be reached at 127\.0\.0\.1:1: .*ECONNREFUSED/],
    ['rediss://localhost:6379', /must be a URL as redis:/],
    ['localhost:6379', /must be a URL as redis:/],
    ['redis://localhost/one', /must be a URL as redis:/],
  ])('cannot be had from %s', async (url, message) => {
    await expect(open({ url })).rejects.toThrow(message);
  });
});
