import { childBody } from './hosts/child-body.ts';
import { type Gates, startHost } from './hosts/gated-host.ts';
import type { Host } from './hosts/host.ts';
import { inProcessBody } from './hosts/in-process-body.ts';
import type { PostgresPlace } from './places/postgres.ts';
import type { RedisPlace } from './places/redis.ts';
import type { Plan } from './plan.ts';
import type { Place, Row, State } from './world.ts';

/** Processes that are started before they are needed: a start takes longer than an execution. */
const SPARES = 2;

/** The servers of a run and its consumers. */
export class Theatre {
  readonly places: readonly Place[];
  readonly postgres: PostgresPlace | undefined;
  readonly redis: RedisPlace | undefined;
  readonly #plan: Plan;
  readonly #gates: Gates;
  #idle: Host[] = [];
  #spares: Promise<Host>[] = [];
  /** False when a handler remembers what it has done: then every execution needs consumers of its own. */
  reusable = true;
  started = 0;

  constructor(
    plan: Plan,
    places: ReadonlyMap<string, Place>,
    postgres: PostgresPlace | undefined,
    redis: RedisPlace | undefined,
  ) {
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
    this.prefetch();
    return spare;
  }

  /** Starts what will be needed soon. */
  prefetch(): void {
    if (this.#plan.code.kind === 'factory') return;
    while (this.#spares.length < SPARES) {
      const starting = this.#start();
      starting.catch(() => undefined);
      this.#spares.push(starting);
    }
  }

  #start(): Promise<Host> {
    this.started++;
    const { code, batch, manualAck } = this.#plan;
    return startHost(this.#gates, (env, gated, ears) => {
      if (code.kind === 'factory') return inProcessBody(code.factory, batch, env, ears);
      return childBody({ module: code.url, export: code.export, batch, manualAck, gated }, env, ears);
    });
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
    for (const place of this.places) await place.reset();
  }

  async state(published: readonly Row[]): Promise<State> {
    const all = new Map<string, readonly Row[]>();
    for (const place of this.places) for (const [table, rows] of await place.state()) all.set(table, rows);
    if (published.length > 0) all.set('published', published);
    return all;
  }

  async close(): Promise<void> {
    await this.fresh();
    const spares = await Promise.allSettled(this.#spares);
    await Promise.all(spares.flatMap(one => (one.status === 'fulfilled' ? [one.value.kill([])] : [])));
    for (const place of this.places) await place.close();
  }
}
