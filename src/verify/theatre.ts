import { childBody } from './hosts/child-body.ts';
import { type Gates, startHost } from './hosts/gated-host.ts';
import type { Host } from './hosts/host.ts';
import { inProcessBody } from './hosts/in-process-body.ts';
import type { PostgresPlace } from './places/postgres.ts';
import type { RedisPlace } from './places/redis.ts';
import type { SqlitePlace } from './places/sqlite.ts';
import type { Plan } from './plan.ts';
import { type Place, PlaceBusy, type Row, type State } from './world.ts';

/** Processes that are started before they are needed: a start takes longer than an execution. */
const SPARES = 2;
/** Of those that must not start during an execution: two consumers, and one for each that dies. */
const SPARES_ALONE = 4;

/** The servers of a run and its consumers. */
export class Theatre {
  readonly places: readonly Place[];
  readonly postgres: PostgresPlace | undefined;
  readonly redis: RedisPlace | undefined;
  readonly sqlite: SqlitePlace | undefined;
  readonly #plan: Plan;
  readonly #gates: Gates;
  #idle: Host[] = [];
  #spares: Promise<Host>[] = [];
  /** All that may still run: an execution that failed on its way gives none back. */
  readonly #alive = new Set<Host>();
  /** False when a handler remembers what it has done: then every execution needs consumers of its own. */
  reusable = true;
  /** No more than a few executions are to come: processes are started when they are needed. */
  lastScene = false;

  constructor(
    plan: Plan,
    places: ReadonlyMap<string, Place>,
    postgres: PostgresPlace | undefined,
    redis: RedisPlace | undefined,
    sqlite: SqlitePlace | undefined,
  ) {
    this.sqlite = sqlite;
    this.redis = redis;
    this.#plan = plan;
    this.places = [...new Set(places.values())];
    this.postgres = postgres;
    this.#gates = async onHeld => {
      const env: Record<string, string> = {};
      const proxies = [];
      for (const [name, value] of Object.entries(plan.env)) {
        const place = places.get(name);
        if (place === undefined) {
          env[name] = value;
          continue;
        }
        const { proxy, url } = await place.gate(onHeld);
        proxies.push(proxy);
        env[name] = url;
      }
      return { proxies, env };
    };
  }

  async take(): Promise<Host> {
    for (let host = this.#idle.pop(); host !== undefined; host = this.#idle.pop()) {
      if (!host.exited) return host;
    }
    const spare = this.#spares.shift() ?? this.#start();
    if (this.sqlite === undefined) this.prefetch();
    return spare;
  }

  /** Starts what will be needed soon. */
  prefetch(): void {
    if (this.lastScene || this.#plan.code.kind === 'factory' || this.sqlite !== undefined) return;
    while (this.#spares.length < SPARES) {
      const starting = this.#start();
      starting.catch(() => undefined);
      this.#spares.push(starting);
    }
  }

  async #start(): Promise<Host> {
    const { code, batch, manualAck } = this.#plan;
    const host = await startHost(this.#gates, (env, gated, ears) => {
      if (code.kind === 'factory') return inProcessBody(code.factory, batch, env, ears);
      return childBody(
        { module: code.url, export: code.export, batch, manualAck, sqlite: this.sqlite?.file, gated },
        env,
        ears,
      );
    });
    for (const other of this.#alive) if (other.exited) this.#alive.delete(other);
    this.#alive.add(host);
    return host;
  }

  /** Gives consumers back after an execution. */
  async giveBack(hosts: readonly Host[]): Promise<void> {
    if (this.reusable) this.#idle.push(...hosts);
    else await Promise.all(hosts.map(host => host.kill([])));
  }

  /** From now on only consumers that have done nothing. */
  async fresh(): Promise<void> {
    const idle = this.#idle;
    this.#idle = [];
    await Promise.all(idle.map(host => host.kill([])));
  }

  async reset(): Promise<void> {
    if (this.sqlite !== undefined) await this.#prefetchAlone();
    for (const place of this.places) {
      await place.reset().catch(async error => {
        if (!(error instanceof PlaceBusy)) throw error;
        await this.fresh();
        await place.reset();
      });
    }
  }

  async state(published: readonly Row[], left: readonly Host[]): Promise<State> {
    const all = new Map<string, readonly Row[]>();
    for (const place of this.places) {
      const state = await place.state().catch(async error => {
        if (!(error instanceof PlaceBusy)) throw error;
        // What is not committed by now never will be.
        await Promise.all(left.map(host => host.kill([])));
        return place.state();
      });
      for (const [table, rows] of state) all.set(table, rows);
    }
    if (published.length > 0) all.set('published', published);
    return all;
  }

  /** One after the other, and nobody at work: what a module does to the file while it loads would meet others' locks. */
  async #prefetchAlone(): Promise<void> {
    const needed = this.lastScene ? SPARES : SPARES_ALONE;
    while (this.#idle.length + this.#spares.length < needed) {
      const starting = this.#start();
      this.#spares.push(starting);
      await starting;
    }
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#spares);
    await Promise.all([...this.#alive].map(host => host.kill([])));
    for (const place of this.places) await place.close();
  }
}
