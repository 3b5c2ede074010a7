import type { DatabaseSync } from 'node:sqlite';
import { batchesOf, type Load, loadOf, type PaymentMessage, paymentOf } from '../load.ts';
import type { Shape } from '../shape.ts';
import { type SqlitePlace, walletContestant } from './place.ts';
import type { Sizes } from './sizes.ts';

/** The hand-written loops on node:sqlite: synchronous, every statement prepared once. */
export function loops(sizes: Sizes): Shape<SqlitePlace> {
  return {
    rows: [
      { id: 'sql.sqlite.naive', what: 'naive: a transaction per message' },
      { id: 'sql.sqlite.loop.batch', what: 'hand-written, 500 per transaction' },
    ],
    contestants: place => [
      loop(place, 'sql.sqlite.naive', loadOf(sizes.single), lane => lane.map(message => [message])),
      loop(place, 'sql.sqlite.loop.batch', loadOf(sizes.batch), batchesOf),
    ],
  };
}

function loop(
  place: SqlitePlace,
  id: string,
  load: Load,
  transactions: (lane: readonly PaymentMessage[]) => Iterable<readonly PaymentMessage[]>,
) {
  return walletContestant(place, {
    id,
    load,
    async open(file) {
      const database = place.database(file);
      const apply = applierOn(database);
      return () => async () => {
        for (const messages of transactions(load.lanes[0]!)) {
          database.exec('begin immediate');
          for (const message of messages) apply(message);
          database.exec('commit');
        }
      };
    },
  });
}

function applierOn(database: DatabaseSync): (message: PaymentMessage) => void {
  const claim = database.prepare('insert into processed (consumer, message_id) values (?, ?) on conflict do nothing');
  const credit = database.prepare('update wallet set balance = balance + ? where id = ?');
  return message => {
    if (claim.run('wallet', message.id).changes === 0) return;
    const { wallet, amount } = paymentOf(message);
    credit.run(amount, wallet);
  };
}
