import type { HttpAnswer } from '../options.ts';
import { type HttpRequest, type HttpResponse, httpProxy, keyOf } from '../proxies/http-proxy.ts';
import type { Place, Row, State } from '../world.ts';
import { entryFor, pattern } from './entries.ts';

export interface HttpOptions {
  /** The variables that lead here; with several, each effect says to which it went. */
  readonly names: readonly string[];
  readonly answers: Readonly<Record<string, HttpAnswer>>;
  /** `http /metrics`: paths that are not compared, and those that may be called more than once. */
  readonly ignore: readonly string[];
  readonly accept: readonly string[];
}

interface Effect {
  readonly to: string;
  readonly request: HttpRequest;
}

/**
 * A service at the other end of HTTP, by the name of the variable that leads there. All share what they have done, which the
 * first of them tells.
 */
export function httpPlaces(options: HttpOptions): ReadonlyMap<string, Place> {
  const service = new Service(options);
  return new Map(
    options.names.map((name, i): [string, Place] => [
      name,
      {
        async gate(onHeld) {
          const proxy = await httpProxy(request => service.carryOut(name, request), onHeld);
          return { proxy, url: `http://127.0.0.1:${proxy.port}` };
        },
        reset: async () => service.forget(),
        state: async () => (i === 0 ? service.state() : new Map()),
        close: async () => undefined,
      },
    ]),
  );
}

const NO_EFFECT = new Set(['GET', 'HEAD', 'OPTIONS']);
const REUSED: HttpAnswer = { status: 422, body: { error: 'this idempotency key was used for another request' } };

class Service {
  readonly #options: HttpOptions;
  #effects: Effect[] = [];
  /** By idempotency key. */
  readonly #done = new Map<string, { readonly body: string; readonly response: HttpResponse }>();

  constructor(options: HttpOptions) {
    this.#options = options;
  }

  carryOut(to: string, request: HttpRequest): HttpResponse {
    const { method, path, body } = request;
    const response = responseOf(this.#answerTo(request));
    if (NO_EFFECT.has(method) || response.status >= 400) return response;
    const key = keyOf(request);
    if (key !== null) {
      const id = JSON.stringify([to, method, path, key]);
      const before = this.#done.get(id);
      // As services do it: what is asked for under a key cannot change, or one of two effects would be lost unnoticed.
      if (before !== undefined) return before.body === body ? before.response : responseOf(REUSED);
      this.#done.set(id, { body, response });
    }
    this.#effects.push({ to, request });
    return response;
  }

  #answerTo({ method, path }: HttpRequest): HttpAnswer {
    const found = Object.entries(this.#options.answers).find(([at]) => {
      const [, onlyMethod, onlyPath = ''] = /^(?:([A-Z]+) )?(.*)$/.exec(at) ?? [];
      return (onlyMethod === undefined || onlyMethod === method) && pattern(onlyPath).test(pathOnly(path));
    });
    return found?.[1] ?? {};
  }

  forget(): void {
    this.#effects = [];
    this.#done.clear();
  }

  state(): State {
    const ignored = entryFor('http', this.#options.ignore);
    const accepted = entryFor('http', this.#options.accept);
    const state = new Map<string, Row[]>();
    for (const { to, request } of this.#effects) {
      const path = pathOnly(request.path);
      if (ignored(path) !== undefined) continue;
      const table = accepted(path) ?? 'http';
      const row = {
        ...(this.#options.names.length > 1 ? { to } : {}),
        method: request.method,
        path: request.path,
        key: keyOf(request),
        ...columnsOf(request),
      };
      state.set(table, [...(state.get(table) ?? []), row]);
    }
    return state;
  }
}

function pathOnly(path: string): string {
  return path.replace(/[?#].*$/s, '');
}

function responseOf({ status = 200, body = { ok: true } }: HttpAnswer): HttpResponse {
  return typeof body === 'string'
    ? { status, type: 'text/plain; charset=utf-8', body }
    : { status, type: 'application/json', body: JSON.stringify(body) };
}

/** The body as columns, so that a time or a random id in it can be told from the rest. */
function columnsOf({ body, headers }: HttpRequest): Row {
  if (body === '') return {};
  if (headers['content-type']?.includes('application/x-www-form-urlencoded')) {
    return Object.fromEntries([...new URLSearchParams(body)].map(([name, value]) => [`body.${name}`, value]));
  }
  try {
    const parsed = JSON.parse(body) as unknown;
    if (isRecord(parsed)) return Object.fromEntries(flat('body', parsed));
  } catch {
    // Then it is text.
  }
  return { body };
}

function flat(name: string, value: unknown): [string, string | null][] {
  if (isRecord(value)) return Object.entries(value).flatMap(([key, one]) => flat(`${name}.${key}`, one));
  if (value === null || typeof value === 'string') return [[name, value]];
  return [[name, JSON.stringify(value)]];
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length > 0;
}
