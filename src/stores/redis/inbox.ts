import { NevertwiceError } from '../../errors.ts';
import type { Answer, Claim, LeaseGrant, LeaseInbox, LeaseProof, LeaseState } from '../../ports/store.ts';
import { Gathered } from '../gathered.ts';
import type { Connection } from './connection.ts';
import type { ConsumerKeys } from './keys.ts';
import type { RedisDeadLetters } from './letters.ts';
import type { RedisSettings } from './options.ts';
import { resultText } from './result.ts';
import { claim as claimScript } from './scripts/claim.ts';
import { complete as completeScript } from './scripts/complete.ts';
import { inspect as inspectScript } from './scripts/inspect.ts';
import { release as releaseScript } from './scripts/release.ts';
import { renew as renewScript } from './scripts/renew.ts';
import type { Script } from './scripts/script.ts';
import { newNonce, UnheardClaims } from './unheard.ts';

/** A key outlives its lease by at least this: what it remembers is that its owner may still complete, and the token. */
const MARGIN_MS = 60_000;

export interface InboxParts {
  readonly connection: Connection;
  readonly keys: ConsumerKeys;
  readonly letters: RedisDeadLetters;
  readonly settings: RedisSettings;
  readonly retentionMs: number;
  /** Throws when the store was closed. */
  readonly assertOpen: () => void;
  /** Told how many calls were refused. */
  readonly stale: (calls: number) => void;
}

interface Completion extends LeaseProof {
  /** The result as JSON, or nothing. */
  readonly text: string;
}

/** What one call of a script has to do: the items of one slot, with their places in the batch. */
interface Group<T> {
  readonly slot: number;
  readonly keys: [string, ...string[]];
  readonly items: T[];
  readonly places: number[];
}

type Around<T> = (
  group: Group<T>,
  run: (keys: [string, ...string[]]) => Promise<readonly boolean[]>,
) => Promise<readonly boolean[]>;

/** The ids of one consumer. One call of a script for each slot that a batch touches, all at once. */
export class RedisInbox implements LeaseInbox {
  readonly retentionMs: number;
  readonly #parts: InboxParts;
  readonly #unheard = new UnheardClaims();
  /** By the length of the lease, of which a consumer has one. */
  readonly #claims = new Map<number, Gathered<Claim, LeaseGrant>>();
  readonly #completions = new Gathered<Completion, boolean>(items => this.#complete(items));

  constructor(parts: InboxParts) {
    this.retentionMs = parts.retentionMs;
    this.#parts = parts;
  }

  async claim(claims: readonly Claim[], leaseMs: number): Promise<readonly LeaseGrant[]> {
    let gathered = this.#claims.get(leaseMs);
    if (gathered === undefined) {
      gathered = new Gathered(all => this.#claim(all, leaseMs));
      this.#claims.set(leaseMs, gathered);
    }
    return gathered.ask(claims);
  }

  async #claim(claims: readonly Claim[], leaseMs: number): Promise<readonly LeaseGrant[]> {
    const offers = claims.map(claim => ({ claim, nonce: this.#unheard.take(claim.hex) ?? newNonce() }));
    // Before the claims, on the same connection: what is given back is free for them.
    this.#giveBack(this.#unheard.takeAll());
    const args = [String(Math.ceil(leaseMs)), this.#ttl(leaseMs)];
    const grants: LeaseGrant[] = new Array(claims.length);
    const settled = await Promise.allSettled(
      this.#groups(offers).map(async ({ keys, items, places }) => {
        const given = (reply: unknown) => grantsOf(reply as ClaimReply, items);
        const lines = items.map(({ claim, nonce }) => `${nonce} ${claim.fingerprint ?? ''}`);
        const reply = await this.#run(claimScript, keys, [...args, lines.join('\n')], late => {
          const heard = given(late);
          const fresh = items.filter((_, i) => heard[i]?.nonce !== undefined);
          this.#giveBack(fresh.filter(offer => this.#unheard.forget(offer)));
        });
        const heard = given(reply);
        for (let i = 0; i < heard.length; i++) grants[places[i]!] = heard[i]!;
        if (heard.some(grant => grant.nonce !== undefined)) await this.#replicated(keys[0]);
      }),
    );
    const failed = settled.find(one => one.status === 'rejected');
    if (failed !== undefined) {
      this.#giveBack(offers.filter((_, i) => grants[i]?.nonce !== undefined));
      this.#unheard.add(offers.filter((_, i) => grants[i] === undefined));
      throw failed.reason;
    }
    return grants;
  }

  async renew(items: readonly LeaseProof[], leaseMs: number): Promise<readonly boolean[]> {
    const args = [String(Math.ceil(leaseMs)), this.#ttl(leaseMs)];
    return this.#owned(items, renewScript, args, ({ nonce }) => [nonce]);
  }

  async complete(items: readonly (LeaseProof & { readonly result?: unknown })[]): Promise<readonly boolean[]> {
    return this.#completions.ask(items.map(({ claim, nonce, result }) => ({ claim, nonce, text: resultText(result) })));
  }

  #complete(items: readonly Completion[]): Promise<readonly boolean[]> {
    const { keys: names, retentionMs } = this.#parts;
    return this.#owned(
      items,
      completeScript,
      [String(retentionMs)],
      ({ nonce, text }) => [nonce, text],
      async ({ slot, keys }, run) => {
        const owned = await run([...keys, names.counts(slot)]);
        if (owned.includes(true)) await this.#replicated(keys[0]);
        return owned;
      },
    );
  }

  async release(items: readonly LeaseProof[]): Promise<readonly boolean[]> {
    try {
      return await this.#owned(items, ...this.#releasing());
    } catch (error) {
      this.#unheard.addReleases(items);
      throw error;
    }
  }

  async inspect(claims: readonly Claim[]): Promise<readonly LeaseState[]> {
    const states: LeaseState[] = new Array(claims.length);
    await Promise.all(
      this.#groups(claims.map(claim => ({ claim }))).map(async ({ keys, places }) => {
        const reply = (await this.#run(inspectScript, keys, [])) as readonly Reply[];
        for (const [i, one] of reply.entries()) states[places[i]!] = stateOf(one);
      }),
    );
    return states;
  }

  async deadLetter(letters: Parameters<LeaseInbox['deadLetter']>[0]): Promise<void> {
    this.#parts.assertOpen();
    await this.#parts.letters.add(letters);
  }

  async blockedKeys(keys: readonly string[]): Promise<ReadonlySet<string>> {
    this.#parts.assertOpen();
    return this.#parts.letters.blocked(keys);
  }

  /** Runs a script that says 1 or 0 for each item, and counts the refusals. */
  async #owned<T extends LeaseProof>(
    items: readonly T[],
    script: Script,
    head: readonly string[],
    argsOf: (item: T) => readonly string[],
    around?: Around<T>,
  ): Promise<readonly boolean[]> {
    const owned = await this.#flags(items, script, head, argsOf, around);
    this.#parts.stale(owned.filter(own => !own).length);
    return owned;
  }

  async #flags<T extends LeaseProof>(
    items: readonly T[],
    script: Script,
    head: readonly string[],
    argsOf: (item: T) => readonly string[],
    around: Around<T> = (group, run) => run(group.keys),
  ): Promise<readonly boolean[]> {
    const owned: boolean[] = new Array(items.length);
    await Promise.all(
      this.#groups(items).map(async group => {
        const args = [...head, ...group.items.flatMap(argsOf)];
        const flags = await around(group, async keys => {
          const reply = (await this.#run(script, keys, args)) as readonly unknown[];
          return reply.map(flag => Number(flag) === 1);
        });
        for (const [i, flag] of flags.entries()) owned[group.places[i]!] = flag;
      }),
    );
    return owned;
  }

  #run(script: Script, keys: [string, ...string[]], args: readonly string[], late?: (reply: unknown) => void) {
    this.#parts.assertOpen();
    return this.#parts.connection.run(script, keys, args, late);
  }

  #groups<T extends { readonly claim: Claim }>(items: readonly T[]): readonly Group<T>[] {
    const groups = new Map<number, Group<T>>();
    for (let place = 0; place < items.length; place++) {
      const item = items[place]!;
      const slot = this.#parts.keys.slotOf(item.claim.hex);
      const key = this.#parts.keys.id(slot, item.claim.hex);
      const group = groups.get(slot);
      if (group === undefined) groups.set(slot, { slot, keys: [key], items: [item], places: [place] });
      else {
        group.keys.push(key);
        group.items.push(item);
        group.places.push(place);
      }
    }
    return [...groups.values()];
  }

  #ttl(leaseMs: number): string {
    return String(Math.max(this.#parts.retentionMs, Math.ceil(leaseMs) + MARGIN_MS));
  }

  /** Waits for replicas, when asked to. On the connection of the write before it. */
  async #replicated(key: string): Promise<void> {
    const wait = this.#parts.settings.waitForReplicas;
    if (wait === undefined) return;
    const { replicas, timeoutMs } = wait;
    const command = ['WAIT', String(replicas), String(timeoutMs)];
    const have = Number(await this.#parts.connection.send(key, command, timeoutMs));
    if (have >= replicas) return;
    throw new NevertwiceError('NT_STORE_DOWN', `${have} of ${replicas} replicas had the write within ${timeoutMs} ms`);
  }

  /**
   * Leases that nobody works under, or claims of which nobody knows whether they came to be; so a refusal says nothing.
   * What cannot be given back now is tried again with the next claim, and runs out in the end.
   */
  #giveBack(items: readonly LeaseProof[]): void {
    if (items.length === 0) return;
    this.#flags(items, ...this.#releasing()).catch(() => this.#unheard.addReleases(items));
  }

  #releasing() {
    const { retentionMs } = this.#parts;
    return [releaseScript, [String(retentionMs)], ({ nonce }: LeaseProof) => [nonce]] as const;
  }
}

/** Fields of a reply: text, numbers as text or number. */
type Reply = readonly (string | number)[];

/** The token of all that are new; then the place and the answer of each other one. */
type ClaimReply = readonly [token: string, ...others: (readonly [place: string | number, ...Reply])[]];

const FRESH: Answer = { answer: 'fresh' };

function grantsOf([first, ...others]: ClaimReply, offers: readonly LeaseProof[]): readonly LeaseGrant[] {
  const token = BigInt(first);
  const grants: LeaseGrant[] = offers.map(({ nonce }) => ({ answer: FRESH, nonce, token }));
  for (const [place, ...reply] of others) grants[Number(place)] = grantOf(reply, offers[Number(place)]!);
  return grants;
}

function grantOf([what, value, result]: Reply, { claim, nonce }: LeaseProof): LeaseGrant {
  if (what === 'fresh') return { answer: FRESH, nonce, token: BigInt(value!) };
  if (what === 'busy') return { answer: { answer: 'busy', until: dateOf(value!) } };
  if (what === 'conflict') {
    return { answer: { answer: 'conflict', stored: String(value), offered: claim.fingerprint! } };
  }
  return { answer: { answer: 'duplicate', at: dateOf(value!), ...resultOf(result!) } };
}

function stateOf([letter, time, rest]: Reply): LeaseState {
  if (letter === undefined) return { state: 'absent' };
  if (letter === 'd') return { state: 'done', at: dateOf(time!), ...resultOf(rest!) };
  const token = BigInt(rest!);
  return letter === 'r' ? { state: 'released', token } : { state: 'claimed', token, until: dateOf(time!) };
}

/** No result is not a result of undefined. */
function resultOf(text: string | number): { readonly result?: unknown } {
  return text === '' ? {} : { result: JSON.parse(String(text)) as unknown };
}

function dateOf(ms: string | number): Date {
  return new Date(Number(ms));
}
