import { createConsumer } from '../../../src/index.ts';
import { postgresStore } from '../../../src/stores/postgres/index.ts';
import { type Load, loadOf, type Payment, paymentOf } from '../load.ts';
import { runOf } from '../ours.ts';
import type { Shape } from '../shape.ts';
import { batchLoop } from './loop.ts';
import { type PostgresPlace, walletContestant } from './place.ts';
import type { Sizes } from './sizes.ts';
import { credit } from './statements.ts';

/** 500 messages a transaction, handlers of different keys overlapping on one pipelined connection. */
export function overlap(sizes: Sizes): Shape<PostgresPlace> {
  const load = loadOf(sizes.overlap);
  return {
    rows: [
      { id: 'sql.pg.loop.overlap.1', what: 'hand-written, pipelined, 1 lane' },
      { id: 'sql.pg.overlap.1', what: "overlap: 'by-key', 1 lane", against: 'sql.pg.loop.overlap.1', target: 0.8 },
      {
        id: 'sql.pg.overlap.1.naive',
        what: "overlap: 'by-key', 1 lane",
        of: 'sql.pg.overlap.1',
        against: 'sql.pg.naive',
        target: 6,
      },
    ],
    contestants: place => [byHand(place, 'sql.pg.loop.overlap.1', load), ours(place, 'sql.pg.overlap.1', load)],
  };
}

/** All handlers and COMMIT are sent without waiting for any reply. */
function byHand(place: PostgresPlace, id: string, load: Load) {
  return batchLoop(place, id, load, schema => {
    const crediting = credit(schema);
    return (client, fresh) =>
      Promise.all([...fresh.map(message => client.query(crediting.with(paymentOf(message)))), client.query('commit')]);
  });
}

function ours(place: PostgresPlace, id: string, load: Load) {
  return walletContestant(place, {
    id,
    load,
    async open(schema) {
      const store = postgresStore(place.pool({ max: 2, pipeline: true }), { schema });
      await store.migrate();
      const crediting = credit(schema);
      return () =>
        runOf(load, source =>
          createConsumer({
            name: 'wallet',
            source,
            store,
            overlap: 'by-key',
            handle: ({ body }, { tx }) => tx.query(crediting.with(body as Payment)),
          }),
        );
    },
  });
}
