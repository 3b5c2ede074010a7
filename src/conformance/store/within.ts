import assert from 'node:assert/strict';
import type { TransactionalStore } from '../../ports/store.ts';
import type { TestContext } from '../test-function.ts';
import { budget, claimOf, Effects, type Register, registration, type StoreHarness } from './support.ts';

type Harness = StoreHarness<TransactionalStore<any>>;

/** Claims in a transaction that the caller has open. */
export function withinTests(test: Register<TransactionalStore<any>>): void {
  const withCaller = (
    title: string,
    run: (harness: Harness, begin: NonNullable<Harness['callersTransaction']>) => Promise<void>,
  ) =>
    test(title, async (harness: Harness, context: TestContext) => {
      if (harness.callersTransaction === undefined) {
        context.skip?.('the harness gives no transaction of the caller');
        return;
      }
      await run(harness, harness.callersTransaction);
    });

  withCaller('within: claim and effect are there once the caller commits', async ({ store }, begin) => {
    const inbox = await store.open(registration());
    const effects = await Effects.on(store);
    const result = await begin(tx =>
      inbox.within(tx, [claimOf('m1')], async unit => {
        assert.deepEqual([...unit.fresh], [true]);
        await unit.sql`INSERT INTO suite_effects (id, amount) VALUES (${effects.id}, ${500})`;
        return 'done';
      }),
    );
    assert.equal(result, 'done');
    assert.deepEqual(await effects.amounts(), [500]);
    await inbox.transaction([claimOf('m1')], budget, async unit => assert.deepEqual([...unit.fresh], [false]));
  });

  withCaller('within: the caller rolls back, and nothing is left', async ({ store }, begin) => {
    const inbox = await store.open(registration());
    const effects = await Effects.on(store);
    const rolledBack = begin(async tx => {
      await inbox.within(
        tx,
        [claimOf('m1')],
        unit => unit.sql`INSERT INTO suite_effects (id, amount) VALUES (${effects.id}, ${500})`,
      );
      throw new Error('the caller fails');
    });
    await assert.rejects(rolledBack, /the caller fails/);
    assert.deepEqual(await effects.amounts(), []);
    await inbox.transaction([claimOf('m1')], budget, async unit => assert.deepEqual([...unit.fresh], [true]));
  });

  withCaller(
    'within: a caller who catches the error and commits keeps neither claim nor effect',
    async ({ store }, begin) => {
      const inbox = await store.open(registration());
      const effects = await Effects.on(store);
      await begin(async tx => {
        const failing = inbox.within(tx, [claimOf('m1')], async unit => {
          await unit.sql`INSERT INTO suite_effects (id, amount) VALUES (${effects.id}, ${500})`;
          throw new Error('on purpose');
        });
        await assert.rejects(failing, /on purpose/);
      });
      assert.deepEqual(await effects.amounts(), []);
      await inbox.transaction([claimOf('m1')], budget, async unit => assert.deepEqual([...unit.fresh], [true]));
    },
  );
}
