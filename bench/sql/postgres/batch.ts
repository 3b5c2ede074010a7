import { createConsumer } from '../../../src/index.ts';
import { postgresStore } from '../../../src/stores/postgres/index.ts';
import { type Load, loadOf, type Payment, paymentOf } from '../load.ts';
import { runOf } from '../ours.ts';
import type { Shape } from '../shape.ts';
import { batchLoop } from './loop.ts';
import { type PostgresPlace, walletContestant } from './place.ts';
import type { Sizes } from './sizes.ts';
import { creditAll } from './statements.ts';

/** 500 messages a transaction, one statement for all of them. */
export function batch(sizes: Sizes): Shape<PostgresPlace> {
  const one = loadOf(sizes.batch);
  const two = loadOf(sizes.batch, 2);
  return {
    rows: [
      { id: 'sql.pg.loop.batch.1', what: 'hand-written, set-based, 1 lane' },
      { id: 'sql.pg.batch.1', what: 'handleBatch, 1 lane', against: 'sql.pg.loop.batch.1', target: 0.8 },
      {
        id: 'sql.pg.batch.1.naive',
        what: 'handleBatch, 1 lane',
        of: 'sql.pg.batch.1',
        against: 'sql.pg.naive',
        target: 12,
      },
      {
        id: 'sql.pg.batch.1.no-fingerprint',
        what: 'handleBatch, 1 lane, fingerprint: false',
        against: 'sql.pg.loop.batch.1',
      },
      { id: 'sql.pg.loop.batch.2', what: 'hand-written, set-based, 2 lanes' },
      { id: 'sql.pg.batch.2', what: 'handleBatch, 2 lanes', against: 'sql.pg.loop.batch.2', target: 0.8 },
      {
        id: 'sql.pg.batch.2.naive',
        what: 'handleBatch, 2 lanes',
        of: 'sql.pg.batch.2',
        against: 'sql.pg.naive',
        target: 20,
      },
    ],
    contestants: place => [
      byHand(place, 'sql.pg.loop.batch.1', one),
      ours(place, 'sql.pg.batch.1', one, true),
      ours(place, 'sql.pg.batch.1.no-fingerprint', one, false),
      byHand(place, 'sql.pg.loop.batch.2', two),
      ours(place, 'sql.pg.batch.2', two, true),
    ],
  };
}

function byHand(place: PostgresPlace, id: string, load: Load) {
  return batchLoop(place, id, load, schema => {
    const crediting = creditAll(schema);
    return (client, fresh) => {
      const payments = fresh.map(paymentOf);
      return Promise.all([client.query(crediting.with(payments)), client.query('commit')]);
    };
  });
}

function ours(place: PostgresPlace, id: string, load: Load, fingerprint: boolean) {
  return walletContestant(place, {
    id,
    load,
    async open(schema) {
      const store = postgresStore(place.pool({ max: load.lanes.length + 1, pipeline: true }), { schema });
      await store.migrate();
      const crediting = creditAll(schema);
      return () =>
        runOf(load, source =>
          createConsumer({
            name: 'wallet',
            source,
            store,
            fingerprint,
            handleBatch: (messages, { tx }) => tx.query(crediting.with(messages.map(({ body }) => body as Payment))),
          }),
        );
    },
  });
}
