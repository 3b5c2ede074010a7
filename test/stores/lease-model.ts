import fc from 'fast-check';
import { expect } from 'vitest';
import { encodeKey } from '../../src/identity/encoding.ts';
import type { LeaseGrant, LeaseStore } from '../../src/index.ts';

const KEYS = ['m1', 'm2', 'm3'].map(id => encodeKey(id));
const LEASE_MS = 60_000;
const SHORT_MS = 1;

/** What a key should be like: the whole machine. `live` is whether the lease still runs. */
interface Key {
  state: 'absent' | 'claimed' | 'released' | 'done';
  owner: string;
  live: boolean;
  token: bigint;
  result: unknown;
}

export interface Modelled {
  readonly store: LeaseStore;
  /** Lets the store's clock pass these milliseconds. */
  readonly passTime: (ms: number) => Promise<void>;
  /** True when an owner who completes a second time is told so. */
  readonly completesAgain: boolean;
}

const key = fc.nat({ max: KEYS.length - 1 });
// Which of the nonces that were ever given out for the key, the newest first.
const nonce = fc.nat({ max: 3 });
const step = fc.oneof(
  fc.record({ do: fc.constant('claim' as const), key, short: fc.boolean() }),
  fc.record({ do: fc.constantFrom('renew' as const, 'release' as const), key, nonce }),
  fc.record({
    do: fc.constant('complete' as const),
    key,
    nonce,
    result: fc.option(fc.jsonValue(), { nil: undefined }),
  }),
  fc.record({ do: fc.constant('inspect' as const) }),
);

/** Random calls against the machine written down once more, in the shortest way. */
export async function checkLeaseMachine(numRuns: number, create: () => Promise<Modelled>): Promise<void> {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async steps => {
      const { store, passTime, completesAgain } = await create();
      const inbox = await store.open({ name: 'pay', signature: 's/1' });
      const keys = KEYS.map((): Key => ({ state: 'absent', owner: '', live: false, token: 0n, result: undefined }));
      const nonces: string[][] = KEYS.map(() => []);
      let refused = store.staleCalls;
      for (const one of steps) {
        if (one.do === 'inspect') {
          const states = await inbox.inspect(KEYS);
          expect(states.map(({ state }) => state)).toEqual(keys.map(({ state }) => state));
          continue;
        }
        const [model, claim] = [keys[one.key]!, KEYS[one.key]!];
        if (one.do === 'claim') {
          const [grant] = await inbox.claim([claim], one.short ? SHORT_MS : LEASE_MS);
          if (one.short) await passTime(SHORT_MS + 1);
          const wanted = model.state === 'done' ? 'duplicate' : model.live ? 'busy' : 'fresh';
          expect(grant!.answer.answer).toBe(wanted);
          if (wanted === 'duplicate') expect(grant!.answer).toHaveProperty('at');
          if (wanted === 'duplicate') expect((grant!.answer as { result?: unknown }).result).toEqual(model.result);
          if (wanted !== 'fresh') continue;
          const { nonce, token } = grant as Required<LeaseGrant>;
          expect(token).toBeGreaterThan(model.token);
          Object.assign(model, { state: 'claimed', owner: nonce, live: !one.short, token });
          nonces[one.key]!.push(nonce);
          continue;
        }
        const nonce = nonces[one.key]!.at(-1 - one.nonce) ?? 'never-given';
        const owns = model.state === 'claimed' && model.owner === nonce;
        const again = one.do === 'complete' && completesAgain && model.state === 'done' && model.owner === nonce;
        const proof = { claim, nonce };
        if (one.do === 'renew') expect(await inbox.renew([proof], LEASE_MS)).toEqual([owns]);
        if (one.do === 'release') expect(await inbox.release([proof])).toEqual([owns]);
        if (one.do === 'complete')
          expect(await inbox.complete([{ ...proof, result: one.result }])).toEqual([owns || again]);
        if (!owns && !again) refused++;
        expect(store.staleCalls).toBe(refused);
        if (!owns) continue;
        if (one.do === 'renew') model.live = true;
        if (one.do === 'release') Object.assign(model, { state: 'released', live: false });
        if (one.do === 'complete') Object.assign(model, { state: 'done', result: one.result });
      }
      await store.close();
    }),
    { numRuns },
  );
}
