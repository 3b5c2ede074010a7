import { setTimeout as sleep } from 'node:timers/promises';
import { redisProxy } from '../proxies/redis-proxy.ts';
import type { RespValue } from '../proxies/redis-resp.ts';
import type { Place, Row, State } from '../world.ts';
import { entryFor } from './entries.ts';
import { addressOf, type RedisAddress, RedisClient } from './redis-client.ts';

export interface RedisOptions {
  readonly url: string;
  /** The server was started for this run: all of its databases are the handler's. Otherwise only that of the URL. */
  readonly own: boolean;
  /** Keys are effects. */
  readonly compare: boolean;
  /** `redis cache:*`: keys that are not compared, and those that may be written more than once. */
  readonly ignore: readonly string[];
  readonly accept: readonly string[];
}

export interface RedisPlace extends Place {
  /** Without the keys of these patterns, as when they run out while a message waits for its redelivery. */
  remove(patterns: readonly string[]): Promise<void>;
}

/** @throws VerifyError */
export async function redisPlace(options: RedisOptions): Promise<RedisPlace> {
  const address = addressOf(options.url);
  return new Redis(options, address, await RedisClient.connect(address));
}

class Redis implements RedisPlace {
  readonly #options: RedisOptions;
  readonly #address: RedisAddress;
  readonly #admin: RedisClient;
  #closed = false;

  constructor(options: RedisOptions, address: RedisAddress, admin: RedisClient) {
    this.#options = options;
    this.#address = address;
    this.#admin = admin;
  }

  async gate(onHeld: Parameters<Place['gate']>[0]): ReturnType<Place['gate']> {
    const { host, port, auth } = this.#address;
    const proxy = await redisProxy(
      { host, port, auth, gone: clients => this.#gone(clients), waits: client => this.#waits(client) },
      onHeld,
    );
    const url = new URL(this.#options.url);
    url.hostname = '127.0.0.1';
    url.port = String(proxy.port);
    return { proxy, url: url.href };
  }

  async #clients(): Promise<readonly string[]> {
    return (await this.#admin.ask('CLIENT', 'LIST')).text.toString().split('\n');
  }

  async #gone(clients: readonly string[]): Promise<void> {
    if (clients.length === 0) return;
    const beginnings = clients.map(client => `id=${client} `);
    const left = (lines: readonly string[]) =>
      lines.some(line => beginnings.some(beginning => line.startsWith(beginning)));
    // A client may say goodbye as late as when all is over, and nobody waits for what comes of it then.
    const connected = () =>
      this.#clients().catch((error: Error) => {
        if (this.#closed) return [];
        throw error;
      });
    while (!this.#closed && left(await connected())) await sleep(1);
  }

  async #waits(client: string): Promise<boolean> {
    const line = (await this.#clients()).find(one => one.startsWith(`id=${client} `));
    return line !== undefined && / flags=\w*b/.test(line);
  }

  async reset(): Promise<void> {
    await this.#admin.ask(this.#options.own ? 'FLUSHALL' : 'FLUSHDB', 'SYNC');
  }

  async remove(patterns: readonly string[]): Promise<void> {
    if (patterns.length === 0) return;
    await this.#inEachDatabase(async () => {
      for (const pattern of patterns) {
        const keys = await this.#admin.ask('KEYS', pattern);
        if (keys.items.length > 0) await this.#admin.ask('DEL', ...keys.items.map(key => key.text));
      }
    });
  }

  async state(): Promise<State> {
    const state = new Map<string, Row[]>();
    if (!this.#options.compare) return state;
    const ignored = entryFor('redis', this.#options.ignore);
    const accepted = entryFor('redis', this.#options.accept);
    await this.#inEachDatabase(async database => {
      const own = database === this.#address.database ? 'redis' : `redis database ${database}`;
      const { items: keys } = await this.#admin.ask('KEYS', '*');
      const rows = await Promise.all(keys.map(({ text: key }) => this.#row(key)));
      for (const row of rows) {
        if (row === undefined || ignored(row.key!) !== undefined) continue;
        const table = accepted(row.key!) ?? own;
        state.set(table, [...(state.get(table) ?? []), row]);
      }
    });
    return state;
  }

  async #inEachDatabase(work: (database: number) => Promise<void>): Promise<void> {
    const { database } = this.#address;
    if (!this.#options.own) return work(database);
    const keyspace = (await this.#admin.ask('INFO', 'keyspace')).text.toString();
    for (const [, used] of keyspace.matchAll(/^db(\d+):/gm)) {
      await this.#admin.ask('SELECT', used!);
      await work(Number(used));
    }
    await this.#admin.ask('SELECT', String(database));
  }

  /** Undefined when it has run out meanwhile. */
  async #row(key: Buffer): Promise<Row | undefined> {
    const type = (await this.#admin.ask('TYPE', key)).text.toString();
    if (type === 'none') return undefined;
    return { key: key.toString(), type, value: await this.#value(key, type) };
  }

  async #value(key: Buffer, type: string): Promise<string> {
    const ask = (...args: (string | Buffer)[]) => this.#admin.ask(...args);
    switch (type) {
      case 'string':
        return (await ask('GET', key)).text.toString();
      case 'list':
        return JSON.stringify(texts(await ask('LRANGE', key, '0', '-1')));
      case 'set':
        return JSON.stringify(texts(await ask('SMEMBERS', key)).sort());
      case 'hash':
        return JSON.stringify(Object.fromEntries(pairs(texts(await ask('HGETALL', key))).sort()));
      case 'zset':
        return JSON.stringify(Object.fromEntries(pairs(texts(await ask('ZRANGE', key, '0', '-1', 'WITHSCORES')))));
      case 'stream':
        // Without the ids, which are times.
        return JSON.stringify((await ask('XRANGE', key, '-', '+')).items.map(entry => pairs(texts(entry.items[1]!))));
      default:
        return (await ask('DUMP', key)).text.toString('base64');
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#admin.close();
  }
}

function texts(list: RespValue): string[] {
  return list.items.map(item => item.text.toString());
}

function pairs(items: readonly string[]): [string, string][] {
  return Array.from({ length: items.length / 2 }, (_, i) => [items[2 * i]!, items[2 * i + 1]!]);
}
