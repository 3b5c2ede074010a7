import assert from 'node:assert/strict';
import type { TransactionalStore, Unit } from '../../ports/store.ts';
import { budget, claimOf, Effects, fingerprints, type Register, registration } from './support.ts';

const answers = (unit: Unit<unknown>) => unit.answers();

/** What a transactional store answers to claims, one transaction after the other. */
export function claimTests(test: Register<TransactionalStore<any>>): void {
  test('a claim is fresh once and a duplicate afterwards, with the time of the first', async ({ store }) => {
    const inbox = await store.open(registration());
    const before = Date.now();
    assert.deepEqual(await inbox.transaction([claimOf('m1')], budget, answers), [{ answer: 'fresh' }]);
    const [answer] = await inbox.transaction([claimOf('m1')], budget, answers);
    assert.equal(answer?.answer, 'duplicate');
    const at = answer.answer === 'duplicate' ? answer.at : undefined;
    assert.ok(at instanceof Date && Math.abs(at.getTime() - before) < 60_000, `the time of the first is ${at}`);
  });

  test('C07: flags and answers come in the order of the batch, whatever its order', async ({ store }) => {
    const inbox = await store.open(registration());
    await inbox.transaction([claimOf('m3'), claimOf('m1')], budget, async () => undefined);
    const batch = ['m5', 'm1', 'm4', 'm3', 'm2'].map(id => claimOf(id));
    await inbox.transaction(batch, budget, async unit => {
      assert.deepEqual([...unit.fresh], [true, false, true, false, true]);
      const kinds = (await unit.answers()).map(answer => answer.answer);
      assert.deepEqual(kinds, ['fresh', 'duplicate', 'fresh', 'duplicate', 'fresh']);
    });
  });

  test('a batch of 500 is claimed whole, and is a duplicate whole', async ({ store }) => {
    const inbox = await store.open(registration());
    const batch = Array.from({ length: 500 }, (_, i) => claimOf(`m${i}`));
    const count = (unit: Unit<unknown>) => Promise.resolve(unit.fresh.filter(Boolean).length);
    assert.equal(await inbox.transaction(batch, budget, count), 500);
    assert.equal(await inbox.transaction(batch.toReversed(), budget, count), 0);
  });

  test('a transaction without claims works, for what is only recorded', async ({ store }) => {
    const inbox = await store.open(registration());
    const result = await inbox.transaction([], budget, async unit => [
      unit.fresh.length,
      (await unit.answers()).length,
    ]);
    assert.deepEqual(result, [0, 0]);
  });

  test('an error of the handler comes out as it is and leaves neither effect nor claim', async ({ store }) => {
    const inbox = await store.open(registration());
    const effects = await Effects.on(store);
    const failure = new Error('insufficient funds');
    const failing = inbox.transaction([claimOf('m1')], budget, async unit => {
      await unit.sql`INSERT INTO suite_effects (id, amount) VALUES (${effects.id}, ${500})`;
      throw failure;
    });
    await assert.rejects(failing, error => error === failure);
    assert.deepEqual(await effects.amounts(), []);
    assert.deepEqual(await inbox.transaction([claimOf('m1')], budget, answers), [{ answer: 'fresh' }]);
  });

  test('C42: consumers do not see each other', async ({ store }) => {
    const [email, ledger] = [await store.open(registration()), await store.open(registration())];
    for (const inbox of [email, ledger]) {
      assert.deepEqual(await inbox.transaction([claimOf('m1')], budget, answers), [{ answer: 'fresh' }]);
      assert.equal((await inbox.transaction([claimOf('m1')], budget, answers))[0]?.answer, 'duplicate');
    }
  });

  test('C39: ids are compared byte by byte', async ({ store }) => {
    const inbox = await store.open(registration());
    const ids = [
      '3f2b8c1e-0000-4000-8000-00000000abcd',
      '3F2B8C1E-0000-4000-8000-00000000ABCD',
      '{3f2b8c1e-0000-4000-8000-00000000abcd}',
      '007',
      '7',
      '1e3',
      '1000',
      ' m1',
      'm1',
      'm1 ',
      'é',
      'e\u0301',
    ].map(id => claimOf(id));
    const bytes = [[1], [1, 0], [1, 0, 0], [1, 0xff, 0xfe], [1, 0x27, 0x22, 0x5c]].map(key =>
      claimOf(Uint8Array.from(key)),
    );
    const batch = [...ids, ...bytes];
    await inbox.transaction(batch, budget, async unit => assert.ok(unit.fresh.every(Boolean), `${unit.fresh}`));
    await inbox.transaction(batch, budget, async unit => assert.ok(!unit.fresh.some(Boolean), `${unit.fresh}`));
  });

  test('C34: ids of 1 to 300 bytes, each one byte longer than the last', async ({ store }) => {
    const inbox = await store.open(registration());
    const batch = Array.from({ length: 300 }, (_, i) => claimOf(new Uint8Array(i + 1).fill(0xa5)));
    await inbox.transaction(batch, budget, async unit => assert.ok(unit.fresh.every(Boolean)));
    await inbox.transaction(batch, budget, async unit => assert.ok(!unit.fresh.some(Boolean)));
  });

  test('C44: another payload under the same id is a conflict that names both fingerprints', async ({ store }) => {
    const inbox = await store.open(registration());
    const { a, b } = fingerprints;
    await inbox.transaction([claimOf('m1', a)], budget, async () => undefined);
    assert.deepEqual(await inbox.transaction([claimOf('m1', b)], budget, answers), [
      { answer: 'conflict', stored: a, offered: b },
    ]);
    assert.equal((await inbox.transaction([claimOf('m1', a)], budget, answers))[0]?.answer, 'duplicate');
  });

  test('C44: where either side has no fingerprint, a copy is a plain duplicate', async ({ store }) => {
    const inbox = await store.open(registration());
    const { a } = fingerprints;
    await inbox.transaction([claimOf('m1'), claimOf('m2')], budget, async () => undefined);
    assert.equal((await inbox.transaction([claimOf('m1', a)], budget, answers))[0]?.answer, 'duplicate');
    await inbox.transaction([claimOf('m3', a)], budget, async () => undefined);
    assert.equal((await inbox.transaction([claimOf('m3')], budget, answers))[0]?.answer, 'duplicate');
  });
}
