import assert from 'node:assert/strict';
import type { TransactionalInbox, TransactionalStore } from '../../ports/store.ts';
import {
  budget,
  claimOf,
  Effects,
  gate,
  pause,
  type Register,
  registration,
  type StoreHarness,
  untilFree,
} from './support.ts';

// Long enough for a store that does not wait to have answered, short enough for every lock bound.
const HELD_MS = 40;

type Harness = StoreHarness<TransactionalStore<any>>;

async function twoInboxes(harness: Harness): Promise<[TransactionalInbox<any>, TransactionalInbox<any>]> {
  const consumer = registration();
  const second = (await harness.secondStore?.()) ?? harness.store;
  return [await harness.store.open(consumer), await second.open(consumer)];
}

/** Two copies at once: the second waits for the first and then tells the truth. */
export function concurrencyTests(test: Register<TransactionalStore<any>>): void {
  test('C02 A: of two copies at once, the second is a duplicate once the first has committed', harness =>
    twoCopies(harness, { firstFails: false }));

  test('C02 B: of two copies at once, the second takes over when the first rolls back', harness =>
    twoCopies(harness, { firstFails: true }));

  test('C02: two copies at once in one store', async harness => {
    const { secondStore: _, ...alone } = harness;
    await twoCopies(alone, { firstFails: true });
  });

  test('C06: batches that claim the same ids in opposite orders both finish, and each id is done once', async harness => {
    const [one, two] = await twoInboxes(harness);
    const effects = await Effects.on(harness.store);
    const ids = Array.from({ length: 20 }, (_, i) => i);
    const batch = (inbox: TransactionalInbox<any>, order: readonly number[]) =>
      untilFree(() =>
        inbox.transaction(
          order.map(i => claimOf(`m${i}`)),
          budget,
          async unit => {
            for (const [at, i] of order.entries()) {
              if (unit.fresh[at]) await unit.sql`INSERT INTO suite_effects (id, amount) VALUES (${effects.id}, ${i})`;
            }
          },
        ),
      );
    await Promise.all([batch(one, ids), batch(two, ids.toReversed()), batch(one, [7]), batch(two, [19, 3])]);
    assert.deepEqual(await effects.amounts(), ids);
  });
}

async function twoCopies(harness: Harness, { firstFails }: { firstFails: boolean }): Promise<void> {
  const [one, two] = await twoInboxes(harness);
  const effects = await Effects.on(harness.store);
  const [claimed, release] = [gate(), gate()];
  const first = one.transaction([claimOf('m1')], budget, async unit => {
    assert.deepEqual([...unit.fresh], [true]);
    await unit.sql`INSERT INTO suite_effects (id, amount) VALUES (${effects.id}, ${500})`;
    claimed.open();
    await release.opened;
    if (firstFails) throw new Error('the first fails');
  });
  await claimed.opened;

  let secondHasAnswer = false;
  const second = untilFree(() =>
    two.transaction([claimOf('m1')], budget, async unit => {
      secondHasAnswer = true;
      if (unit.fresh[0]) await unit.sql`INSERT INTO suite_effects (id, amount) VALUES (${effects.id}, ${500})`;
      return (await unit.answers())[0]?.answer;
    }),
  );
  await pause(HELD_MS);
  const answeredEarly = secondHasAnswer;
  release.open();
  await (firstFails ? assert.rejects(first, /the first fails/) : first);
  assert.equal(await second, firstFails ? 'fresh' : 'duplicate');
  assert.ok(!answeredEarly, 'the second copy got an answer while the first was still undecided');
  assert.deepEqual(await effects.amounts(), [500]);
}
