import type { ReadyEntry } from '../entry.ts';
import type { Path, Scope } from '../path.ts';
import type { Surroundings } from '../run-handlers.ts';
import type { Effect } from './effect.ts';
import { Effects } from './effects.ts';
import { noEffects } from './ledger.ts';

/** The effects of the handlers of one transaction, or of one group under leases. */
export interface EffectsAround {
  effectOf(signal: AbortSignal, entry: ReadyEntry | undefined): Effect;
  /** Undefined where there are none, so that nothing is awaited for them. */
  readonly ended: Pick<Surroundings, 'ended'> | undefined;
}

const NONE: EffectsAround = { effectOf: () => noEffects, ended: undefined };

export function effectsAround(path: Path, scope: Scope): EffectsAround {
  const rows = path.effects;
  if (rows === undefined) return NONE;
  const all = new Map<ReadyEntry, Effects>();
  return {
    effectOf(signal, entry) {
      if (entry === undefined) return noEffects;
      const effects = new Effects(path, scope, rows, entry, signal);
      all.set(entry, effects);
      return effects.effect;
    },
    ended: { ended: entry => all.get(entry)!.ended() },
  };
}
