import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LeaseGrant, LeaseInbox } from '../../src/ports/store.ts';
import { type LocalOptions, localStore } from '../../src/stores/local/index.ts';
import { claimOf } from './sqlite-support.ts';

export const consumer = { name: 'ledger', signature: 's/1' };

/** A folder of its own with the path of a file that does not exist yet, and its removal. */
export function temporaryPath(): { readonly path: string; readonly folder: string; remove(): void } {
  const folder = mkdtempSync(join(tmpdir(), 'nevertwice-local-'));
  return { path: join(folder, 'leases.db'), folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** A wall clock that the test moves, in either direction. */
export function wallClock(now = 1_700_000_000_000) {
  return {
    now: () => now,
    pass: (ms: number) => {
      now += ms;
    },
  };
}

/** A store on `path` with the consumer `ledger` opened. */
export async function ledgerOn(path: string, options: LocalOptions = {}) {
  const store = localStore(path, options);
  return { store, inbox: await store.open(consumer) };
}

export async function claimOne(inbox: LeaseInbox, id: string, leaseMs = 60_000): Promise<LeaseGrant> {
  return (await inbox.claim([claimOf(id)], leaseMs))[0]!;
}

export async function answerTo(inbox: LeaseInbox, id: string): Promise<string> {
  return (await claimOne(inbox, id)).answer.answer;
}

/** Claims what nobody has, and completes it. */
export async function completeOne(inbox: LeaseInbox, id: string, result?: unknown): Promise<void> {
  const { nonce } = await claimOne(inbox, id);
  const [owned] = await inbox.complete([{ claim: claimOf(id), nonce: nonce!, result }]);
  if (!owned) throw new Error(`${id} was not ours`);
}
