import { createConsumer } from '../../../src/index.ts';
import { postgresStore } from '../../../src/stores/postgres/index.ts';
import { type Load, loadOf, type Payment, paymentOf } from '../load.ts';
import { runOf } from '../ours.ts';
import type { Shape } from '../shape.ts';
import { batchLoop } from './loop.ts';
import { type PostgresPlace, walletContestant } from './place.ts';
import type { Sizes } from './sizes.ts';
import { credit } from './statements.ts';

/** 500 messages a transaction, handlers one after the other. */
export function inOrder(sizes: Sizes): Shape<PostgresPlace> {
  const one = loadOf(sizes.inOrder);
  const two = loadOf(sizes.inOrder, 2);
  return {
    rows: [
      { id: 'sql.pg.loop.in-order.1', what: 'hand-written, in order, 1 lane' },
      { id: 'sql.pg.in-order.1', what: 'in order, 1 lane', against: 'sql.pg.loop.in-order.1', target: 0.8 },
      {
        id: 'sql.pg.in-order.1.naive',
        what: 'in order, 1 lane',
        of: 'sql.pg.in-order.1',
        against: 'sql.pg.naive',
        target: 1.3,
      },
      { id: 'sql.pg.in-order.1.sql', what: 'in order, 1 lane, ctx.sql', against: 'sql.pg.loop.in-order.1' },
      { id: 'sql.pg.loop.in-order.2', what: 'hand-written, in order, 2 lanes' },
      { id: 'sql.pg.in-order.2', what: 'in order, 2 lanes', against: 'sql.pg.loop.in-order.2', target: 0.8 },
      {
        id: 'sql.pg.in-order.2.naive',
        what: 'in order, 2 lanes',
        of: 'sql.pg.in-order.2',
        against: 'sql.pg.naive',
        target: 2,
      },
    ],
    contestants: place => [
      byHand(place, 'sql.pg.loop.in-order.1', one),
      ours(place, 'sql.pg.in-order.1', one),
      oursWithSql(place, 'sql.pg.in-order.1.sql', one),
      byHand(place, 'sql.pg.loop.in-order.2', two),
      ours(place, 'sql.pg.in-order.2', two),
    ],
  };
}

function byHand(place: PostgresPlace, id: string, load: Load) {
  return batchLoop(place, id, load, schema => {
    const crediting = credit(schema);
    return async (client, fresh) => {
      for (const message of fresh) await client.query(crediting.with(paymentOf(message)));
      await client.query('commit');
    };
  });
}

function ours(place: PostgresPlace, id: string, load: Load) {
  return walletContestant(place, {
    id,
    load,
    async open(schema) {
      const store = postgresStore(place.pool({ max: load.lanes.length + 1, pipeline: true }), { schema });
      await store.migrate();
      const crediting = credit(schema);
      return () =>
        runOf(load, source =>
          createConsumer({
            name: 'wallet',
            source,
            store,
            handle: ({ body }, { tx }) => tx.query(crediting.with(body as Payment)),
          }),
        );
    },
  });
}

function oursWithSql(place: PostgresPlace, id: string, load: Load) {
  return walletContestant(place, {
    id,
    load,
    async open(schema) {
      const pool = place.pool({ max: 2, pipeline: true, options: `-c search_path=${schema}` });
      const store = postgresStore(pool, { schema });
      await store.migrate();
      return () =>
        runOf(load, source =>
          createConsumer({
            name: 'wallet',
            source,
            store,
            handle: ({ body }, { sql }) => {
              const { wallet, amount } = body as Payment;
              return sql`update wallet set balance = balance + ${amount} where id = ${wallet}`;
            },
          }),
        );
    },
  });
}
