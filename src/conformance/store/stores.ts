import assert from 'node:assert/strict';
import type { TransactionalStore } from '../../ports/store.ts';
import { budget, claimOf, letterOf, type Register, registration, unique } from './support.ts';

/** What concerns the store as a whole, and several of them on the same data. */
export function wholeStoreTests(test: Register<TransactionalStore<any>>): void {
  test('stats count what each consumer has done and set aside', async ({ store }) => {
    const [busy, idle] = [registration(), registration()];
    const inbox = await store.open(busy);
    await store.open(idle);
    await inbox.transaction([claimOf('m1'), claimOf('m2')], budget, unit => unit.deadLetter([letterOf('01')]));
    const rows = await store.stats();
    const { oldest, newest, ...counts } = rows.find(row => row.consumer === busy.name) ?? assert.fail('no row');
    assert.deepEqual(counts, { consumer: busy.name, processed: 2, deadLetters: 1 });
    assert.ok(oldest instanceof Date && newest instanceof Date && oldest <= newest && +newest > Date.now() - 60_000);
    assert.deepEqual(
      rows.find(row => row.consumer === idle.name),
      {
        consumer: idle.name,
        processed: 0,
        deadLetters: 0,
        oldest: undefined,
        newest: undefined,
      },
    );
  });

  test('several stores may start at once, and their consumers are the same', async ({ store, secondStore }) => {
    const stores = [store, ...(secondStore === undefined ? [] : [await secondStore(), await secondStore()])];
    const consumer = registration();
    const inboxes = await Promise.all(stores.flatMap(s => [s.open(consumer), s.open(consumer)]));
    await inboxes[0]?.transaction([claimOf('m1')], budget, async unit => assert.deepEqual([...unit.fresh], [true]));
    await inboxes
      .at(-1)
      ?.transaction([claimOf('m1')], budget, async unit => assert.deepEqual([...unit.fresh], [false]));
  });

  test('a set-up may run in several processes at once', async ({ store, secondStore }) => {
    const second = (await secondStore?.()) ?? store;
    const table = `suite_${unique('t').replace('-', '_')}`;
    const strings = Object.assign([`CREATE TABLE IF NOT EXISTS ${table} (id text)`], { raw: [] });
    const setUp = (s: TransactionalStore<any>) => s.setup('suite', async sql => void (await sql(strings)));
    await Promise.all([setUp(store), setUp(second), setUp(store), setUp(second)]);
    const drop = Object.assign([`DROP TABLE ${table}`], { raw: [] });
    await store.transaction((_, sql) => sql(drop));
  });
}
