import { setTimeout } from 'node:timers/promises';
import { backoffMs } from '../../core/backoff.ts';
import { classifyFailure, failureCode } from '../../core/failures.ts';
import { NevertwiceError } from '../../errors.ts';
import type { Driver, Row } from './driver.ts';

/** query_canceled, as by the session's statement_timeout. */
const CANCELED = '57014';
const TRIES = 20;

export type Alone = (text: string, ...values: (string | null)[]) => Promise<readonly Row[]>;

/**
 * Runs statements that stand alone, outside a batch. A session that is set to serializable loses races here too, and one with a
 * time limit of its own gives up while somebody else still commits: they are sent again.
 *
 * @param row what is named when the row stays locked: `a lane's row`
 */
export function aloneOn<Tx>(driver: Driver<Tx>, ready: () => Promise<void>, row: string): Alone {
  return async (text, ...values) => {
    await ready();
    for (let races = 1; ; races++) {
      try {
        return await driver.query({ name: '', text, values });
      } catch (error) {
        const failure = classifyFailure(error);
        if (failure !== 'transient' && failure !== 'contended' && failureCode(error) !== CANCELED) throw error;
        if (races === TRIES) {
          throw new NevertwiceError('NT_STORE_DOWN', `${row} is locked by somebody else (${failureCode(error)})`, {
            cause: error,
          });
        }
        await setTimeout(backoffMs(races, { minMs: 10, maxMs: 500 }, Math.random()));
      }
    }
  };
}
