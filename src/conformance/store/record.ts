import assert from 'node:assert/strict';
import type { TransactionalStore } from '../../ports/store.ts';
import { budget, claimOf, letterOf, type Register, registration, unique } from './support.ts';

const nothing = async () => undefined;

/** What is recorded beside the claim: dead letters, and claims that are given back. */
export function recordTests(test: Register<TransactionalStore<any>>): void {
  const lettersOf = async (store: TransactionalStore<any>, consumer: string) =>
    (await store.stats()).find(row => row.consumer === consumer)?.deadLetters;

  test('a claim given back together with its dead letter is fresh again; its neighbours stay done', async ({
    store,
  }) => {
    const consumer = registration();
    const inbox = await store.open(consumer);
    const batch = [claimOf('m1'), claimOf('m2'), claimOf('m3')];
    await inbox.transaction(batch, budget, async unit => {
      await unit.unclaim([1]);
      await unit.deadLetter([letterOf('01')]);
    });
    assert.equal(await lettersOf(store, consumer.name), 1);
    await inbox.transaction(batch, budget, async unit => assert.deepEqual([...unit.fresh], [false, true, false]));
  });

  test('what an earlier transaction has done is not given back', async ({ store }) => {
    const inbox = await store.open(registration());
    await inbox.transaction([claimOf('m1')], budget, nothing);
    const [first, second] = [claimOf('m1'), claimOf('m2')];
    await inbox.transaction([first, second], budget, unit =>
      unit.unclaim([...unit.fresh.keys()].filter(i => unit.fresh[i])),
    );
    await inbox.transaction([first, second], budget, async unit => assert.deepEqual([...unit.fresh], [false, true]));
  });

  test('a rollback takes dead letters along', async ({ store }) => {
    const consumer = registration();
    const inbox = await store.open(consumer);
    const failing = inbox.transaction([], budget, async unit => {
      await unit.deadLetter([letterOf('01')]);
      throw new Error('on purpose');
    });
    await assert.rejects(failing, /on purpose/);
    assert.equal(await lettersOf(store, consumer.name), 0);
  });

  test('a redelivery does not add a second dead letter, neither in one batch nor later', async ({ store }) => {
    const consumer = registration();
    const inbox = await store.open(consumer);
    const write = (...dedupes: string[]) =>
      inbox.transaction([], budget, unit => unit.deadLetter(dedupes.map(dedupe => letterOf(dedupe))));
    await write('01', '02');
    await write('01');
    assert.equal(await lettersOf(store, consumer.name), 2);
    const other = registration();
    await (await store.open(other)).transaction([], budget, unit => unit.deadLetter([letterOf('01')]));
    assert.equal(await lettersOf(store, other.name), 1);
    assert.equal(await lettersOf(store, consumer.name), 2);
  });

  test('C33: a dead letter takes any bytes and any text', async ({ store }) => {
    const consumer = registration();
    const inbox = await store.open(consumer);
    const odd = letterOf('00ff', {
      messageId: undefined,
      reason: 'id "a\u0000b" holds a NUL',
      position: undefined,
      type: 'half a pair \ud800',
      key: 'a\u0000b',
      time: undefined,
      headers: [
        ['x', 'a\u0000b'],
        ['x', ''],
        ['ü', '\ud800'],
      ],
      payload: Uint8Array.from({ length: 256 }, (_, i) => i),
    });
    await inbox.transaction([], budget, unit => unit.deadLetter([odd, letterOf('01', { payload: new Uint8Array() })]));
    assert.equal(await lettersOf(store, consumer.name), 2);
  });

  test('an open dead letter blocks its key, in its own consumer alone', async ({ store }) => {
    const inbox = await store.open(registration());
    const [held, free] = [unique('account'), unique('account')];
    await inbox.transaction([], budget, unit => unit.deadLetter([letterOf('01', { key: held }), letterOf('02')]));
    const blocked = (keys: readonly string[]) =>
      inbox.transaction([], budget, async unit => [...(await unit.blockedKeys(keys))]);
    assert.deepEqual(await blocked([held, free]), [held]);
    assert.deepEqual(await blocked([]), []);
    const other = await store.open(registration());
    assert.deepEqual(await other.transaction([], budget, async unit => [...(await unit.blockedKeys([held]))]), []);
  });
}
