import assert from 'node:assert/strict';
import type { TransactionalStore, Unit } from '../../ports/store.ts';
import { budget, claimOf, Effects, type Register, registration, rejectsWith } from './support.ts';

const MAX_SAVEPOINTS = 64;

/** Undoing a part of a transaction. */
export function savepointTests(test: Register<TransactionalStore<any>>): void {
  test('a savepoint undoes its own writes and nothing else, also after a failed statement', async ({ store }) => {
    const inbox = await store.open(registration());
    const effects = await Effects.on(store);
    const write = (unit: Unit<unknown>, amount: number) =>
      unit.sql`INSERT INTO suite_effects (id, amount) VALUES (${effects.id}, ${amount})`;
    await inbox.transaction([claimOf('m1')], budget, async unit => {
      await write(unit, 1);
      const undone = unit.savepoint(async () => {
        await write(unit, 2);
        await unit.sql`INSERT INTO suite_no_such_table (id) VALUES (${'x'})`;
      });
      await assert.rejects(undone);
      assert.equal(unit.failure, undefined);
      assert.equal(await unit.savepoint(async () => (await write(unit, 3)).length), 0);
      await write(unit, 4);
      assert.equal(unit.savepoints, 2);
    });
    assert.deepEqual(await effects.amounts(), [1, 3, 4]);
    await inbox.transaction([claimOf('m1')], budget, async unit => assert.deepEqual([...unit.fresh], [false]));
  });

  test('savepoints nest', async ({ store }) => {
    const inbox = await store.open(registration());
    const effects = await Effects.on(store);
    const write = (unit: Unit<unknown>, amount: number) =>
      unit.sql`INSERT INTO suite_effects (id, amount) VALUES (${effects.id}, ${amount})`;
    const error = new Error('on purpose');
    await inbox.transaction([claimOf('m1')], budget, async unit => {
      await unit.savepoint(async () => {
        await write(unit, 1);
        const inner = unit.savepoint(async () => {
          await write(unit, 2);
          throw error;
        });
        await assert.rejects(inner, thrown => thrown === error);
        await write(unit, 3);
      });
    });
    assert.deepEqual(await effects.amounts(), [1, 3]);
  });

  test(`C16: a transaction holds at most ${MAX_SAVEPOINTS} savepoints`, async ({ store }) => {
    const inbox = await store.open(registration());
    await inbox.transaction([claimOf('m1')], budget, async unit => {
      for (let i = 0; i < MAX_SAVEPOINTS; i++) await unit.savepoint(async () => undefined);
      await rejectsWith(
        'NT_TX_FORBIDDEN',
        unit.savepoint(async () => undefined),
      );
      assert.equal(unit.savepoints, MAX_SAVEPOINTS);
    });
  });

  test('where handlers overlap, SAVEPOINT is refused by name and overlapping writes commit', async ({
    store,
  }, context) => {
    const { overlap } = store.capabilities;
    if (overlap !== true) {
      context.skip?.(overlap);
      return;
    }
    const inbox = await store.open(registration());
    const effects = await Effects.on(store);
    const claims = [claimOf('m1'), claimOf('m2'), claimOf('m3')];
    await inbox.transaction(claims, { ...budget, overlap: true }, async unit => {
      await rejectsWith(
        'NT_TX_FORBIDDEN',
        unit.savepoint(async () => undefined),
      );
      await rejectsWith('NT_TX_FORBIDDEN', async () => unit.sql`SAVEPOINT mine`);
      await Promise.all(
        claims.map((_, i) => unit.sql`INSERT INTO suite_effects (id, amount) VALUES (${effects.id}, ${i})`),
      );
    });
    assert.deepEqual(await effects.amounts(), [0, 1, 2]);
  });
}
