import assert from 'node:assert/strict';
import type { Store } from '../../ports/store.ts';
import { type Register, registration, rejectsWith } from './support.ts';

/** What every kind of store keeps for a consumer. */
export function consumerTests(test: Register<Store>): void {
  test('a consumer that makes its ids in another way is refused', async ({ store }) => {
    const { name } = registration();
    await store.open({ name, signature: 'header:message-id/1' });
    await store.open({ name, signature: 'header:message-id/1' });
    await rejectsWith('NT_CONFIG', async () => store.open({ name, signature: 'header:id/1' }));
  });

  test('positions are kept per consumer and lane, and overwritten', async ({ store }) => {
    const [one, two] = [registration(), registration()];
    await store.open(one);
    await store.open(two);
    assert.equal(await store.positions.load(one.name, 'file:a'), undefined);
    await store.positions.save(one.name, 'file:a', '17');
    await store.positions.save(one.name, 'file:b', '3');
    await store.positions.save(two.name, 'file:a', '1');
    await store.positions.save(one.name, 'file:a', '18');
    const load = (name: string, lane: string) => store.positions.load(name, lane);
    assert.deepEqual(
      [await load(one.name, 'file:a'), await load(one.name, 'file:b'), await load(two.name, 'file:a')],
      ['18', '3', '1'],
    );
  });

  test('the store answers a ping', async ({ store }) => {
    await store.open(registration());
    await store.ping();
  });
}
