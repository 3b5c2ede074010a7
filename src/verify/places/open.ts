import type { Plan } from '../plan.ts';
import { startPostgres } from '../servers/postgres-server.ts';
import { redisMissing, startRedis } from '../servers/redis-server.ts';
import { importFrom } from '../user-package.ts';
import { VerifyError } from '../verify-error.ts';
import type { Place } from '../world.ts';
import { httpPlaces } from './http.ts';
import { type PgClientClass, type PostgresPlace, postgresPlace } from './postgres.ts';
import { type RedisPlace, redisPlace } from './redis.ts';
import { type SqlitePlace, sqlitePlace } from './sqlite.ts';

export interface OpenPlaces {
  /** By the name of the variable that leads there. */
  readonly byVariable: ReadonlyMap<string, Place>;
  readonly postgres: PostgresPlace | undefined;
  readonly redis: RedisPlace | undefined;
  readonly sqlite: SqlitePlace | undefined;
  /** Of the server of `postgres`. */
  readonly postgresUrl: string | undefined;
  /** Ends the servers that were started here. */
  close(): Promise<void>;
}

export interface OpenOptions {
  /** Folders in which the user's packages are looked for. */
  readonly near: readonly string[];
  readonly postgres: string | undefined;
  readonly redis: string | undefined;
}

/** Opens what the variables of the plan lead to. @throws VerifyError */
export async function openPlaces(plan: Plan, options: OpenOptions): Promise<OpenPlaces> {
  const values = Object.entries(plan.env);
  const closing: (() => Promise<void>)[] = [];
  const close = async () => {
    for (const end of closing.splice(0).reverse()) await end();
  };
  const byVariable = new Map<string, Place>();
  const opened: Place[] = [];
  try {
    const needsSqlite = values.some(([, value]) => value === 'sqlite');
    if (needsSqlite && plan.code.kind === 'factory') {
      throw new VerifyError('a handler on SQLite is verified in a process of its own: name its module');
    }
    const needsPostgres = values.some(([, value]) => value === 'postgres') || (plan.schema !== '' && !needsSqlite);
    const postgresUrl = needsPostgres ? (options.postgres ?? (await ownPostgres(options, closing))) : undefined;
    const postgres = postgresUrl === undefined ? undefined : await openPostgres(plan, options, postgresUrl);
    if (postgres !== undefined) opened.push(postgres);
    // With both, the schema is PostgreSQL's, and the file's tables are the module's own business.
    const own = postgres === undefined ? plan : { schema: '', seed: '' };
    const sqlite = needsSqlite ? await sqlitePlace(own) : undefined;
    if (sqlite !== undefined) opened.push(sqlite);
    const redis = values.some(([, value]) => value === 'redis') ? await openRedis(plan, options, closing) : undefined;
    const httpNames = values.flatMap(([name, value]) => (value === 'http' ? [name] : []));
    const http = httpPlaces({ names: httpNames, answers: plan.http, ignore: plan.ignore, accept: plan.accept });
    for (const [name, value] of values) {
      const shared: Readonly<Record<string, Place | undefined>> = { postgres, redis, sqlite };
      const place = shared[value] ?? http.get(name);
      if (place !== undefined) byVariable.set(name, place);
    }
    return { byVariable, postgres, redis, sqlite, postgresUrl, close };
  } catch (error) {
    // On a server that was given by its URL, a place leaves a database behind unless it is closed.
    for (const place of opened) await place.close();
    await close();
    throw error;
  }
}

async function openPostgres(plan: Plan, { near }: OpenOptions, url: string): Promise<PostgresPlace> {
  const pg = (await importFrom('pg', [...near, import.meta.dirname])) as { Client?: PgClientClass } | undefined;
  if (pg?.Client === undefined)
    throw new VerifyError('verifying on PostgreSQL needs the client pg: npm install --save-dev pg');
  return postgresPlace({ url, Client: pg.Client, schema: plan.schema, seed: plan.seed });
}

async function ownPostgres({ near }: OpenOptions, closing: (() => Promise<void>)[]): Promise<string> {
  const server = await startPostgres({ near, durable: false }).catch((error: Error) => {
    throw new VerifyError(error.message, { cause: error });
  });
  closing.push(() => server.stop());
  return server.url;
}

async function openRedis(plan: Plan, { redis }: OpenOptions, closing: (() => Promise<void>)[]): Promise<RedisPlace> {
  const { compareRedis: compare, ignore, accept } = plan;
  const options = { compare, ignore, accept };
  if (redis !== undefined) return redisPlace({ ...options, url: redis, own: false });
  if ((await redisMissing()) !== undefined) {
    throw new VerifyError(
      'verifying on Redis needs a redis-server, and there is none: install it, or give --redis URL of one whose data may be deleted',
    );
  }
  const server = await startRedis().catch((error: Error) => {
    throw new VerifyError(error.message, { cause: error });
  });
  closing.push(() => server.stop());
  return redisPlace({ ...options, url: server.url, own: true });
}
