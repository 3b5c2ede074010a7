import type { Client } from 'pg';
import { batchesOf, firstCopies, type Load, type PaymentMessage } from '../load.ts';
import { type PostgresPlace, type WalletJob, walletContestant } from './place.ts';
import { claim } from './statements.ts';

/** What a loop does with the new messages of a batch, up to and including its COMMIT. */
export type Finish = (client: Client, fresh: readonly PaymentMessage[]) => Promise<unknown>;

/**
 * The batch loop that a skilled engineer writes by hand: 500 messages a transaction, one connection a lane, BEGIN and
 * claim sent together, copies inside the batch dropped, everything prepared.
 */
export function batchLoop(place: PostgresPlace, id: string, load: Load, finishOn: (schema: string) => Finish) {
  const open: WalletJob['open'] = async schema => {
    const clients = await Promise.all(load.lanes.map(() => place.client({ pipeline: true })));
    const claiming = claim(schema);
    const finish = finishOn(schema);
    const consume = async (client: Client, lane: readonly PaymentMessage[]) => {
      for (const batch of batchesOf(lane)) {
        const firsts = firstCopies(batch);
        const [, { rows }] = await Promise.all([
          client.query('begin'),
          client.query<{ message_id: string }>(claiming.with([...firsts.keys()].sort())),
        ]);
        const fresh = new Set(rows.map(row => row.message_id));
        await finish(
          client,
          [...firsts.values()].filter(message => fresh.has(message.id)),
        );
      }
    };
    return () => async () => {
      await Promise.all(load.lanes.map((lane, i) => consume(clients[i]!, lane)));
    };
  };
  return walletContestant(place, { id, load, open });
}
