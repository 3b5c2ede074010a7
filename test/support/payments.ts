import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A payment provider on HTTP, as one that honours idempotency keys or as one that does not. */
export interface Payments {
  /** Money that has moved, by account. */
  charged(account: string): number;
  /** Keys of the requests that came, in their order. */
  readonly keys: readonly string[];
  /** Charges an account; rejects with the status where it is not 200. */
  charge(key: string, account: string, amount: number, signal?: AbortSignal): Promise<{ charge: string }>;
  /** Each request from now on waits until the result is called: before it has any effect, or after it. */
  hold(edge: 'before' | 'after'): () => void;
  /** Resolves when so many requests wait. */
  holding(n: number): Promise<void>;
  /** The next requests are refused with this status, without any effect. */
  refuse(status: number, times: number): void;
  readonly url: string;
  close(): Promise<void>;
}

interface Kept {
  readonly body: string;
  answer: string | undefined;
}

/**
 * `honours`: the same key and body give the same answer, the same key with another body 422, a key that is in work 409, as Stripe
 * and Adyen do.
 */
export async function payments({ honours }: { readonly honours: boolean }): Promise<Payments> {
  const totals = new Map<string, number>();
  const kept = new Map<string, Kept>();
  const keys: string[] = [];
  let charges = 0;
  let holding: { readonly edge: 'before' | 'after'; readonly goOn: Promise<void> } | undefined;
  let waiting = 0;
  let changed = Promise.withResolvers<void>();
  let refusals: { readonly status: number; left: number } | undefined;
  const pause = async (edge: 'before' | 'after') => {
    if (holding?.edge !== edge) return;
    waiting++;
    changed.resolve();
    changed = Promise.withResolvers();
    await holding.goOn;
    waiting--;
  };
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    const key = String(request.headers['idempotency-key']);
    keys.push(key);
    const end = (status: number, text: string) => response.writeHead(status).end(text);
    if (refusals !== undefined && refusals.left-- > 0) return end(refusals.status, '');
    const known = honours ? kept.get(key) : undefined;
    if (known !== undefined) {
      if (known.body !== body) return end(422, '');
      return known.answer === undefined ? end(409, '') : end(200, known.answer);
    }
    const mine: Kept = { body, answer: undefined };
    kept.set(key, mine);
    await pause('before');
    const { account, amount } = JSON.parse(body) as { account: string; amount: number };
    totals.set(account, (totals.get(account) ?? 0) + amount);
    mine.answer = JSON.stringify({ charge: `ch_${++charges}` });
    await pause('after');
    return end(200, mine.answer);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/charges`;
  return {
    url,
    keys,
    charged: account => totals.get(account) ?? 0,
    charge: (key, account, amount, signal) => chargeAt(url, key, account, amount, signal),
    hold(edge) {
      const { promise, resolve } = Promise.withResolvers<void>();
      holding = { edge, goOn: promise };
      return () => {
        holding = undefined;
        resolve();
      };
    },
    async holding(n) {
      while (waiting < n) await changed.promise;
    },
    refuse(status, times) {
      refusals = { status, left: times };
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

export async function chargeAt(url: string, key: string, account: string, amount: number, signal?: AbortSignal) {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'idempotency-key': key },
    body: JSON.stringify({ account, amount }),
    ...(signal === undefined ? {} : { signal }),
  });
  if (response.status !== 200) throw Object.assign(new Error(`${response.status}`), { status: response.status });
  return (await response.json()) as { charge: string };
}
