import { createHash } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, isAbsolute, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { BROKERS, type BrokerRules } from './brokers.ts';
import type { HandlerFactory } from './hosts/in-process-body.ts';
import {
  DEFAULT_BOUNDS,
  type EnvValue,
  type HttpAnswer,
  type VerifyFixture,
  type VerifyMessage,
  type VerifyOptions,
} from './options.ts';
import type { Bounds } from './tape.ts';
import { VerifyError } from './verify-error.ts';

/** What is to be verified, with everything decided. */
export interface Plan {
  /** As a person names the handler. */
  readonly name: string;
  readonly code: Code;
  readonly messages: readonly VerifyMessage[];
  /** Numbers of the messages that travel together. */
  readonly deliveries: readonly (readonly number[])[];
  readonly schema: string;
  readonly seed: string;
  readonly env: Readonly<Record<string, EnvValue>>;
  readonly rules: BrokerRules;
  readonly batch: boolean;
  readonly manualAck: boolean;
  readonly ignore: readonly string[];
  readonly accept: readonly string[];
  readonly order: 'any' | 'as-sent';
  readonly compareRedis: boolean;
  readonly resent: VerifyMessage | undefined;
  readonly leases: readonly string[];
  /** SQL; empty for none. */
  readonly expire: string;
  /** Patterns of keys of Redis. */
  readonly evicts: readonly string[];
  /** SQL; empty for none. */
  readonly prune: string;
  readonly http: Readonly<Record<string, HttpAnswer>>;
  readonly bounds: Bounds;
  readonly budgetMs: number;
  readonly thinkMs: number;
  /** Eight hex digits that change with any of it: a token of another plan replays nothing. */
  readonly id: string;
}

export type Code =
  | { readonly kind: 'module'; readonly file: string; readonly url: string; readonly export: string | undefined }
  | { readonly kind: 'factory'; readonly factory: HandlerFactory };

/** @throws VerifyError for what cannot be verified as it is given */
export async function planFrom(options: VerifyOptions): Promise<Plan> {
  const code = codeOf(options.handler);
  const file = code.kind === 'module' ? code.file : resolve('here');
  const exported = code.kind === 'module' ? await fixtureOf(code.file) : {};
  const fixture = { ...exported, ...defined(options) } as VerifyFixture & VerifyOptions;
  const messages = fixture.messages ?? (fixture.message === undefined ? [] : [fixture.message]);
  if (messages.length === 0) {
    throw new VerifyError(
      `no message to deliver: give --message FILE, or export it: export const verify = { message: { … }, schema: '…' }`,
    );
  }
  const rules = BROKERS[fixture.broker ?? 'rabbitmq'];
  if (rules === undefined)
    throw new VerifyError(`there is no broker ${fixture.broker}; there are ${Object.keys(BROKERS).join(', ')}`);
  const schema = sql('schema', fixture.schema, file);
  const seed = sql('seed', fixture.seed, file);
  const expire = sql('expire', fixture.expire, file);
  const prune = sql('prune', fixture.prune, file);
  const env = fixture.env ?? (schema === '' ? {} : { DATABASE_URL: 'postgres' });
  const batch = fixture.batch === true;
  const plan = {
    name: typeof options.handler === 'string' ? options.handler : options.handler.name || 'handler',
    code,
    messages,
    deliveries: batch ? [messages.map((_, i) => i)] : messages.map((_, i) => [i]),
    schema,
    seed,
    env,
    rules,
    batch,
    manualAck: fixture.manualAck === true,
    ignore: fixture.ignore ?? [],
    accept: fixture.accept ?? [],
    order: fixture.order ?? 'any',
    compareRedis: fixture.compareRedis === true,
    resent: fixture.resent,
    leases: fixture.leases ?? [],
    expire,
    evicts: fixture.evicts ?? [],
    prune,
    http: fixture.http ?? {},
    bounds: { ...DEFAULT_BOUNDS, ...fixture.bounds },
    budgetMs: fixture.budgetMs ?? 60_000,
    thinkMs: fixture.thinkMs ?? 5_000,
  } satisfies Omit<Plan, 'id'>;
  const { code: _, budgetMs: __, thinkMs: ___, ...said } = plan;
  const text = code.kind === 'module' ? readFileSync(code.file) : String(code.factory);
  const id = createHash('sha256').update(text).update(JSON.stringify(said)).digest('hex').slice(0, 8);
  return { ...plan, id };
}

function codeOf(handler: string | HandlerFactory): Code {
  if (typeof handler !== 'string') return { kind: 'factory', factory: handler };
  const [path = '', name] = handler.split('#');
  const file = path.startsWith('file:') ? fileURLToPath(path) : resolve(path);
  if (!existsSync(file)) throw new VerifyError(`module ${path} does not exist (looked for ${file})`);
  if (statSync(file).isDirectory()) throw new VerifyError(`module ${path} is a directory; name the file in it`);
  return { kind: 'module', file, url: pathToFileURL(file).href, export: name };
}

function defined(options: VerifyOptions): Partial<VerifyOptions> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

/**
 * What the module exports as `verify`. Loading it here runs its code once more than the handler needs: a module that cannot be
 * loaded says so before anything is started.
 */
async function fixtureOf(file: string): Promise<VerifyFixture> {
  const text = readFileSync(file, 'utf8');
  // A module without it need not be loaded here, and may have reasons not to be.
  if (!/\bverify\b/.test(text)) return {};
  const exported = (await loadApart(file)) as { verify?: VerifyFixture } | undefined;
  return exported?.verify ?? {};
}

async function loadApart(file: string): Promise<unknown> {
  const { readFixture } = await import('./hosts/read-fixture.ts');
  return readFixture(file);
}

function sql(what: string, given: string | undefined, file: string): string {
  if (given === undefined) return '';
  if (!/\.sql$/i.test(given.trim()) || /\s/.test(given.trim())) return given;
  const path = isAbsolute(given) ? given : [resolve(dirname(file), given), resolve(given)].find(existsSync);
  if (path === undefined || !existsSync(path)) throw new VerifyError(`the ${what} ${given} does not exist`);
  return readFileSync(path, 'utf8');
}
