import type { PoolClient } from 'pg';
import { createConsumer } from '../../../src/index.ts';
import { postgresStore } from '../../../src/stores/postgres/index.ts';
import { type Load, loadOf, type Payment, paymentOf } from '../load.ts';
import { runOf } from '../ours.ts';
import type { Shape } from '../shape.ts';
import { type PostgresPlace, walletContestant } from './place.ts';
import type { Sizes } from './sizes.ts';
import { claim, credit } from './statements.ts';

/**
 * One message a transaction, one after the other. The loop that it is measured against does not deduplicate at all and
 * takes as many round trips: BEGIN, the handler's statement, COMMIT.
 */
export function single(sizes: Sizes): Shape<PostgresPlace> {
  const load = loadOf(sizes.single);
  return {
    rows: [
      { id: 'sql.pg.loop.single', what: 'hand-written, no deduplication' },
      { id: 'sql.pg.single', what: 'one message per transaction', against: 'sql.pg.loop.single', target: 0.7 },
      {
        id: 'sql.pg.loop.single.pipelined',
        what: 'hand-written, no deduplication, BEGIN not awaited',
        against: 'sql.pg.loop.single',
      },
      {
        id: 'sql.pg.loop.single.deduplicated',
        what: 'hand-written, with deduplication',
        against: 'sql.pg.loop.single',
      },
      { id: 'sql.pg.loop.single.plain', what: 'hand-written, no deduplication, plain pool' },
      {
        id: 'sql.pg.single.plain',
        what: 'one message per transaction, plain pool',
        against: 'sql.pg.loop.single.plain',
        target: 0.7,
      },
    ],
    contestants: place => [
      withoutDeduplication(place, 'sql.pg.loop.single', load, { pipeline: true, awaitBegin: true }),
      ours(place, 'sql.pg.single', load, true),
      withoutDeduplication(place, 'sql.pg.loop.single.pipelined', load, { pipeline: true, awaitBegin: false }),
      withDeduplication(place, 'sql.pg.loop.single.deduplicated', load),
      withoutDeduplication(place, 'sql.pg.loop.single.plain', load, { pipeline: false, awaitBegin: true }),
      ours(place, 'sql.pg.single.plain', load, false),
    ],
  };
}

function ours(place: PostgresPlace, id: string, load: Load, pipeline: boolean) {
  return walletContestant(place, {
    id,
    load,
    async open(schema) {
      const store = postgresStore(place.pool({ max: 2, pipeline }), { schema });
      await store.migrate();
      const crediting = credit(schema);
      return () =>
        runOf(load, source =>
          createConsumer({
            name: 'wallet',
            source,
            store,
            maxBatch: 1,
            handle: ({ body }, { tx }) => tx.query(crediting.with(body as Payment)),
          }),
        );
    },
  });
}

function withoutDeduplication(
  place: PostgresPlace,
  id: string,
  load: Load,
  { pipeline, awaitBegin }: { pipeline: boolean; awaitBegin: boolean },
) {
  return walletContestant(place, {
    id,
    load,
    expected: load.everyCopy,
    async open(schema) {
      const pool = place.pool({ max: 2, pipeline });
      const crediting = credit(schema);
      const transaction = async (client: PoolClient, payment: Payment) => {
        const begun = client.query('begin');
        if (awaitBegin) await begun;
        await Promise.all([begun, client.query(crediting.with(payment))]);
        await client.query('commit');
      };
      return () => async () => {
        for (const message of load.lanes[0]!) {
          const client = await pool.connect();
          await transaction(client, paymentOf(message));
          client.release();
        }
      };
    },
  });
}

function withDeduplication(place: PostgresPlace, id: string, load: Load) {
  return walletContestant(place, {
    id,
    load,
    async open(schema) {
      const pool = place.pool({ max: 2, pipeline: true });
      const crediting = credit(schema);
      const claiming = claim(schema);
      return () => async () => {
        for (const message of load.lanes[0]!) {
          const client = await pool.connect();
          const [, { rows }] = await Promise.all([client.query('begin'), client.query(claiming.with([message.id]))]);
          if (rows.length > 0) await client.query(crediting.with(paymentOf(message)));
          await client.query('commit');
          client.release();
        }
      };
    },
  });
}
