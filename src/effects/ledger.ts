import { transactional } from '../bind.ts';
import { NevertwiceError } from '../errors.ts';
import type { EffectRows } from '../ports/effects.ts';
import type { Store, TransactionalStore } from '../ports/store.ts';
import type { Effect } from './effect.ts';

/** `true`: in the store itself. A store: in that one. */
export type EffectsOption = true | TransactionalStore<any>;

/** Where a consumer with this option writes down its calls. @throws NT_CONFIG where that cannot be */
export function ledgerOf(option: EffectsOption | undefined, store: Store): EffectRows | undefined {
  if (option === undefined) return undefined;
  const ledger = option === true ? transactional(store, 'effects: true') : option;
  const { effects } = ledger;
  if (effects === undefined) throw new NevertwiceError('NT_CONFIG', `${ledger.name} keeps no ledger of effects`);
  if (ledger === store && typeof effects.beside === 'object') {
    throw new NevertwiceError(
      'NT_CONFIG',
      `effects cannot be written down beside the handler: ${effects.beside.never}; give them a store of their own, as in effects: sqliteStore('effects.db')`,
    );
  }
  return effects;
}

/** Connections of the store's pool that one lane may hold at once. */
export function connectionsPerLane(ledger: EffectRows | undefined, store: Store): number {
  return ledger?.beside === 'pool' && 'effects' in store && store.effects === ledger ? 2 : 1;
}

/** What `context.effect` is on a consumer that has not asked for it. */
export const noEffects: Effect = async () => {
  throw new NevertwiceError(
    'NT_CONFIG',
    'context.effect needs effects: true on the consumer (batches of one, and a connection for the ledger), and handle, not handleBatch',
  );
};
