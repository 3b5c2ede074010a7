import type { Gate, Held } from '../gate.ts';
import type { VerifyMessage } from '../options.ts';
import type { Body, Ears } from './body.ts';
import type { Asked, Host, Rest } from './host.ts';
import type { FromChild } from './protocol.ts';

/** A handler whose requests all fail ends within this time, or has a way to go on that would take long. */
const WINDS_DOWN_MS = 40;

/** Makes the gates of a new consumer, which hand over what they hold. */
export type Gates = (onHeld: (held: Held) => void) => Promise<{
  readonly proxies: readonly Gate[];
  /** The variables that lead to them. */
  readonly env: Readonly<Record<string, string>>;
}>;

/** Starts what runs the handler, behind gates. @throws HandlerBroken */
export async function startHost(
  gates: Gates,
  start: (env: Readonly<Record<string, string>>, gated: readonly number[], ears: Ears) => Promise<Body>,
): Promise<Host> {
  const host = new GatedHost();
  const { proxies, env } = await gates(held => host.hold(held));
  host.proxies = proxies;
  try {
    host.begins(
      await start(
        env,
        proxies.map(proxy => proxy.port),
        host,
      ),
    );
  } catch (error) {
    await host.kill([]);
    throw error;
  }
  return host;
}

class GatedHost implements Host, Ears {
  proxies: readonly Gate[] = [];
  readonly held: Held[] = [];
  readonly ungated = new Set<string>();
  readsClock = false;
  /** Undefined while it is loading: what it asks for then (a migration, a first connection) is not held. */
  #body: Body | undefined;
  #exited = false;
  #severed = false;
  #deliveries = 0;
  #onAsked: ((asked: Asked) => Held) | undefined;
  /** Of the delivery in work. */
  #ended = true;
  #changed = Promise.withResolvers<void>();

  begins(body: Body): void {
    this.#body = body;
  }

  get working(): boolean {
    return !this.#ended;
  }

  get exited(): boolean {
    return this.#exited;
  }

  hold(held: Held): void {
    if (this.#severed) {
      // What asks the broker is answered, so that the handler can end; nobody hears it.
      void held.cut();
      return;
    }
    if (this.#body === undefined || held.quiet) {
      void held.send().then(() => held.answer());
      return;
    }
    this.held.push(held);
    // A process that stands still in a statement does not answer a ping.
    this.#pong.resolve();
    this.#wake();
  }

  take(held: Held): void {
    const at = this.held.indexOf(held);
    if (at !== -1) this.held.splice(at, 1);
  }

  deliver(messages: readonly VerifyMessage[], attempt: number, aheadMs: number, onAsked: (asked: Asked) => Held): void {
    this.#onAsked = onAsked;
    this.#ended = false;
    this.#body?.tell({ say: 'deliver', delivery: ++this.#deliveries, messages, attempt, aheadMs });
  }

  async rest(thinkMs: number): Promise<Rest> {
    const deadline = performance.now() + thinkMs;
    for (;;) {
      for (let i = this.held.length - 1; i >= 0; i--) if (this.held[i]!.gone) this.held.splice(i, 1);
      if (this.#exited) return 'exited';
      if (this.held.length > 0 || this.#ended) return 'still';
      const leftMs = deadline - performance.now();
      if (leftMs <= 0) return 'silent';
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<void>(resolve => {
        timer = setTimeout(resolve, leftMs);
      });
      await Promise.race([this.#changed.promise, late]);
      clearTimeout(timer);
    }
  }

  async kill(kept: readonly Held[]): Promise<void> {
    this.#severed = true;
    // The connections end before the process does, so that nothing of its last moments gets through.
    const severed = Promise.all(this.proxies.map(proxy => proxy.sever(kept)));
    await Promise.all([this.#body?.end(), severed]);
    this.held.length = 0;
    await Promise.all(this.proxies.map(proxy => proxy.close(kept)));
    this.#exited = true;
  }

  async sever(kept: readonly Held[]): Promise<void> {
    this.#severed = true;
    const held = this.held.splice(0).filter(one => !kept.includes(one));
    await Promise.all(this.proxies.map(proxy => proxy.sever(kept)));
    await Promise.all(held.filter(one => one.place === 'broker').map(one => one.cut()));
    this.#wake();
  }

  async recycle(): Promise<boolean> {
    const deadline = performance.now() + WINDS_DOWN_MS;
    while (!this.#ended && !this.#exited && performance.now() < deadline) {
      await Promise.race([this.#changed.promise, new Promise(resolve => setTimeout(resolve, 5))]);
    }
    if (!this.#ended || this.#exited) {
      await this.kill([]);
      return false;
    }
    if (!(await this.settled())) return false;
    this.#severed = false;
    for (const proxy of this.proxies) proxy.reopen();
    return true;
  }

  async settled(): Promise<boolean> {
    // Twice: the first may overtake what its connections had to tell it.
    for (let i = 0; i < 2 && !this.#exited; i++) {
      this.#pong = Promise.withResolvers<void>();
      this.#body?.tell({ say: 'ping' });
      await this.#pong.promise;
    }
    if (!this.#exited && this.held.length === 0) return true;
    await this.kill([]);
    return false;
  }

  #pong = Promise.withResolvers<void>();

  heard(message: FromChild): void {
    if (message.say === 'ungated') {
      this.ungated.add(message.what);
      return;
    }
    if (message.say === 'broker') {
      const { request, what } = message;
      const answer = (error?: string) =>
        this.#body?.tell({ say: 'answer', request, ...(error === undefined ? {} : { error }) });
      this.hold(this.#onAsked!({ by: 'hand', what, answer }));
      return;
    }
    if (message.say === 'pong') this.#pong.resolve();
    if (message.say !== 'done' || message.delivery !== this.#deliveries) return;
    if (message.readClock === true) this.readsClock = true;
    const answer = () => {
      this.#ended = true;
      this.#wake();
    };
    if (this.#severed) answer();
    else this.hold(this.#onAsked!({ by: 'end', error: message.error, answer }));
  }

  ended(): void {
    this.#exited = true;
    this.#pong.resolve();
    this.#wake();
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }
}
