import { ascii } from './core/bytes.ts';
import { quotesBody } from './core/quoting.ts';
import { describeError, NevertwiceError } from './errors.ts';
import type { Delivery } from './ports/delivery.ts';

/** Any Standard Schema (zod, valibot, arktype, …): https://standardschema.dev, version 1. */
export interface Schema<Out> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => any;
    readonly types?: { readonly input: unknown; readonly output: Out } | undefined;
  };
}

/** Turns the bytes of a body into a value; JSON by default. Throws when it cannot. */
export type Decode = (value: Uint8Array | string, delivery: Delivery) => unknown;

/** How one kind of message is handled. `handle` sees messages one by one, `handleBatch` the whole run at once. */
export interface Route {
  readonly kind: 'handle' | 'handleBatch';
  readonly handler: (input: any, context: any) => unknown;
  readonly body: Schema<unknown> | undefined;
  /** Of this type alone; otherwise the consumer's. */
  readonly decode?: Decode | undefined;
}

export interface RouteOptions {
  readonly handle?: ((message: any, context: any) => unknown) | undefined;
  readonly handleBatch?: ((messages: any, context: any) => unknown) | undefined;
  readonly body?: Schema<any> | undefined;
  readonly decode?: Decode | undefined;
}

/** Which handler a type goes to; `undefined` when nobody handles it. */
export type Router = (type: string | undefined) => Route | undefined;

export function routerFor(
  options: RouteOptions & { readonly handlers?: Readonly<Record<string, RouteOptions>> | undefined },
): Router {
  if (options.handlers === undefined) {
    const only = routeFrom(options, 'the consumer');
    return () => only;
  }
  if (options.handle !== undefined || options.handleBatch !== undefined) {
    throw new NevertwiceError('NT_CONFIG', 'give either handlers by type, or one handle or handleBatch for all types');
  }
  const routes = new Map(
    Object.entries(options.handlers).map(([type, shape]) => [type, routeFrom(shape, `handlers.${type}`)]),
  );
  return type => (type === undefined ? undefined : routes.get(type));
}

function routeFrom(options: RouteOptions, where: string): Route {
  const { handle, handleBatch, body, decode } = options;
  if ((typeof handle === 'function') === (typeof handleBatch === 'function')) {
    throw new NevertwiceError('NT_CONFIG', `${where} needs exactly one of handle and handleBatch`);
  }
  if (body !== undefined && typeof body?.['~standard']?.validate !== 'function') {
    throw new NevertwiceError('NT_CONFIG', `${where}: body must be a Standard Schema (zod, valibot, arktype, …)`);
  }
  return handle === undefined
    ? { kind: 'handleBatch', handler: handleBatch!, body, decode }
    : { kind: 'handle', handler: handle, body, decode };
}

/** A schema that checks nothing: the producer's word for the type is taken. */
export function trusted<B>(): Schema<B> {
  return { '~standard': { version: 1, vendor: 'nevertwice', validate: value => ({ value }) } };
}

const strict = new TextDecoder('utf-8', { fatal: true });

/** JSON text or UTF-8 bytes to a value. */
export const decodeJson: Decode = value =>
  JSON.parse(typeof value === 'string' ? value : (ascii(value) ?? strict.decode(value)));

/** The body as a value, decoded at the first use and then kept, the failure too. */
export class LazyBody {
  readonly delivery: Delivery;
  readonly #decode: Decode;
  #done = false;
  #body: unknown;
  #error: NevertwiceError | undefined;

  constructor(delivery: Delivery, decode: Decode) {
    this.delivery = delivery;
    this.#decode = decode;
  }

  /** Throws NT_BAD_MESSAGE without any of the body's content. */
  get body(): unknown {
    if (!this.#done) this.#run();
    if (this.#error !== undefined) throw this.#error;
    return this.#body;
  }

  #run(): void {
    this.#done = true;
    const { body, value } = this.delivery;
    if (body !== undefined) this.#body = body.value;
    else if (value === undefined) this.#error = new NevertwiceError('NT_BAD_MESSAGE', 'the message has no body');
    else this.#decoded(value);
  }

  #decoded(value: Uint8Array | string): void {
    try {
      const body = this.#decode(value, this.delivery);
      if (!(body instanceof Promise)) {
        this.#body = body;
        return;
      }
      // Its rejection is answered here, or a message would end the process.
      body.catch(() => undefined);
      this.#error = new NevertwiceError('NT_BAD_MESSAGE', 'decode returned a promise; it must be synchronous');
    } catch (cause) {
      // A parser's own message quotes the text it could not read, so it stays behind as the cause.
      this.#error = new NevertwiceError('NT_BAD_MESSAGE', 'the body cannot be decoded', { cause });
    }
  }
}

/** The body as its schema wants it. Throws NT_BAD_MESSAGE naming the field and never its value. */
export async function validate(schema: Schema<unknown>, value: unknown): Promise<unknown> {
  let outcome: { value?: unknown; issues?: readonly { message: string; path?: readonly unknown[] }[] };
  try {
    outcome = await schema['~standard'].validate(value);
    if (outcome.issues === undefined) return outcome.value;
  } catch (cause) {
    throw unusable('the schema failed on the body', cause, value);
  }
  const [issue] = outcome.issues;
  const path = (issue?.path ?? []).map(step =>
    String(typeof step === 'object' && step !== null && 'key' in step ? step.key : step),
  );
  const where = `the body is invalid at ${path.length === 0 ? 'its root' : path.join('.')}`;
  // Some schema libraries quote what they got.
  const said = issue === undefined || quotesBody(issue.message, value) ? '' : `: ${issue.message.slice(0, 200)}`;
  throw new NevertwiceError('NT_BAD_MESSAGE', where + said);
}

/** NT_BAD_MESSAGE for an error of the user's own code, whose text is only shown when it does not quote the body. */
export function unusable(what: string, cause: unknown, body: unknown): NevertwiceError {
  const text = describeError(cause);
  const said = quotesBody(text, body) ? (cause instanceof Error ? cause.name : typeof cause) : text.slice(0, 200);
  return new NevertwiceError('NT_BAD_MESSAGE', `${what}: ${said}`, { cause });
}
