import type { DatabaseSync } from 'node:sqlite';
import { createConsumer } from '../../../src/index.ts';
import type { Source } from '../../../src/ports/source.ts';
import { type SqliteStoreHandle, sqliteStore } from '../../../src/stores/sqlite/index.ts';
import { type Load, loadOf, type Payment } from '../load.ts';
import { runOf } from '../ours.ts';
import type { Shape } from '../shape.ts';
import { type SqlitePlace, walletContestant } from './place.ts';
import type { Sizes } from './sizes.ts';

type Store = SqliteStoreHandle<DatabaseSync>;

/** The library on node:sqlite, in its three shapes. */
export function consumers(sizes: Sizes): Shape<SqlitePlace> {
  return {
    rows: [
      { id: 'sql.sqlite.single', what: 'one message per transaction', against: 'sql.sqlite.naive', target: 0.7 },
      { id: 'sql.sqlite.in-order', what: 'in order, ctx.sql', against: 'sql.sqlite.loop.batch' },
      {
        id: 'sql.sqlite.in-order.naive',
        what: 'in order, ctx.sql',
        of: 'sql.sqlite.in-order',
        against: 'sql.sqlite.naive',
        target: 1.3,
      },
      { id: 'sql.sqlite.batch', what: 'handleBatch', against: 'sql.sqlite.loop.batch' },
      {
        id: 'sql.sqlite.batch.naive',
        what: 'handleBatch',
        of: 'sql.sqlite.batch',
        against: 'sql.sqlite.naive',
        target: 1.3,
      },
    ],
    contestants: place => [
      consumer(place, 'sql.sqlite.single', loadOf(sizes.single), inOrder({ maxBatch: 1 })),
      consumer(place, 'sql.sqlite.in-order', loadOf(sizes.batch), inOrder({ maxBatch: 500 })),
      consumer(place, 'sql.sqlite.batch', loadOf(sizes.batch), setBased),
    ],
  };
}

function inOrder({ maxBatch }: { maxBatch: number }) {
  return (store: Store, source: Source) =>
    createConsumer({
      name: 'wallet',
      source,
      store,
      maxBatch,
      handle: ({ body }, { sql }) => {
        const { wallet, amount } = body as Payment;
        return sql`update wallet set balance = balance + ${amount} where id = ${wallet}`;
      },
    });
}

function setBased(store: Store, source: Source) {
  return createConsumer({
    name: 'wallet',
    source,
    store,
    handleBatch: (messages, { tx }) => {
      const credit = tx.prepare('update wallet set balance = balance + ? where id = ?');
      for (const { body } of messages) {
        const { wallet, amount } = body as Payment;
        credit.run(amount, wallet);
      }
    },
  });
}

function consumer(
  place: SqlitePlace,
  id: string,
  load: Load,
  consumerOn: (store: Store, source: Source) => ReturnType<typeof createConsumer>,
) {
  return walletContestant(place, {
    id,
    load,
    async open(file) {
      const store = sqliteStore(file);
      place.closeAtEnd(store);
      await store.migrate();
      return () => runOf(load, source => consumerOn(store, source));
    },
  });
}
