import { createConsumer } from '../../src/index.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import type { Contestant, Row } from '../contest.ts';
import { type Load, loadOf, type Payment } from '../sql/load.ts';
import { runOf } from '../sql/ours.ts';
import { type PostgresPlace, walletContestant } from '../sql/postgres/place.ts';
import { credit } from '../sql/postgres/statements.ts';

export const addRows: readonly Row[] = [
  { id: 'outbox.add.none', what: 'handle in order, 500 a transaction, nothing added' },
  { id: 'outbox.add', what: 'the same, a message added by each', against: 'outbox.add.none', target: 0.8 },
  { id: 'outbox.add.backlog', what: 'the same with a backlog', against: 'outbox.add', target: 0.9 },
];

/** What a handler pays for a message in the outbox, and whether rows that wait there make it dearer. */
export function adders(place: PostgresPlace, events: number, backlog: number): readonly Contestant[] {
  const load = loadOf(events);
  return [
    adder(place, 'outbox.add.none', load, { adds: false, backlog: 0 }),
    adder(place, 'outbox.add', load, { adds: true, backlog: 0 }),
    adder(place, 'outbox.add.backlog', load, { adds: true, backlog }),
  ];
}

function adder(
  place: PostgresPlace,
  id: string,
  load: Load,
  { adds, backlog }: { readonly adds: boolean; readonly backlog: number },
): Contestant {
  const schema = id.replaceAll(/\W/g, '_');
  const contestant = walletContestant(place, {
    id,
    load,
    async open() {
      const store = postgresStore(place.pool({ max: 3, pipeline: true }), { schema });
      await store.migrate();
      await fillOutbox(place, schema, 'backlog', backlog);
      const crediting = credit(schema);
      return async () => {
        await place.admin.query(`delete from ${schema}.outbox where topic = 'paid'`);
        await place.admin.query(`vacuum analyze ${schema}.outbox`);
        return runOf(load, source =>
          createConsumer({
            name: 'wallet',
            source,
            store,
            handle: async ({ body, key }, { tx, outbox }) => {
              await tx.query(crediting.with(body as Payment));
              if (adds) await outbox.add({ topic: 'paid', key: key!, payload: body });
            },
          }),
        );
      };
    },
  });
  return {
    ...contestant,
    async check() {
      await contestant.check();
      const { rows } = await place.admin.query(`select count(*)::int as n from ${schema}.outbox where topic = 'paid'`);
      const expected = adds ? load.messages : 0;
      if (rows[0].n !== expected) throw new Error(`the outbox has ${rows[0].n} messages instead of ${expected}`);
    },
  };
}

/** Rows of a thousand keys, as handlers would have left them behind. */
export async function fillOutbox(place: PostgresPlace, schema: string, topic: string, rows: number): Promise<void> {
  await place.admin.query(
    `insert into ${schema}.outbox (hash, part, json, id, topic, key, payload)
select n % 1000, n % 1000 % 16, true, $1 || '-' || n, $1, 'key-' || n % 1000,
       convert_to(json_build_object('wallet', n % 1000, 'amount', n, 'note', repeat('x', 60))::text, 'UTF8')
from generate_series(1, $2::int) as n`,
    [topic, rows],
  );
  await place.admin.query(`vacuum analyze ${schema}.outbox`);
}
