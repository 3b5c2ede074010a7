import { expect, onTestFinished, test } from 'vitest';
import { createConsumer } from '../../src/index.ts';
import { deliverySource } from '../path/deliveries.ts';
import { redisUrl } from '../support/redis.ts';
import { freshPrefix, openStore, singleClients } from './redis-clients.ts';

test.for(singleClients)(
  'C98: letters are sent through again once, by two people at once too, and free their key, with $name',
  async kind => {
    const { store, close } = await openStore(kind, redisUrl(), { prefix: freshPrefix() });
    onTestFinished(close);
    const failing = new Set(['m1', 'm2']);
    const order: string[] = [];
    const consumer = createConsumer({
      name: 'pay',
      store,
      retries: { attempts: 1 },
      deadLetter: 'key',
      handle: ({ id }) => {
        if (failing.has(id)) throw new Error('cannot');
        order.push(id);
      },
    });
    const given = ['m1', 'm2', 'm3'].map(id => ({ id, key: 'a' }));
    await consumer.run({ source: deliverySource(given) });
    const list = (filter = {}) => store.letters!.list('pay', filter, { limit: 10 });
    expect((await list()).map(letter => [letter.messageId, letter.kind])).toEqual([
      ['m1', 'attempts'],
      ['m2', 'behind'],
      ['m3', 'behind'],
    ]);
    failing.delete('m1');
    const both = await Promise.all([consumer.redrive({ by: 'ada' }), consumer.redrive({ by: 'bob' })]);
    expect(both[0]!.processed + both[1]!.processed).toBe(1);
    expect(order).toEqual(['m1']);
    const [two, three] = await list();
    expect(two).toMatchObject({ messageId: 'm2', kind: 'attempts' });
    expect(two!.history.map(event => event.action)).toContain('retry');
    expect(two!.lastAt.getTime()).toBeGreaterThan(two!.firstAt.getTime());
    const edit = { headers: { note: 'by hand' }, body: '{"mended":true}' };
    failing.clear();
    expect(await consumer.redrive({ filter: { ids: [two!.id] }, edit })).toMatchObject({ processed: 1 });
    expect(await store.letters!.close('pay', two!.id, 'discarded')).toBe(false);
    expect(await store.letters!.close('pay', three!.id, 'discarded')).toBe(true);
    expect(await list()).toEqual([]);
    // Nothing blocks the key any more, and the one that was discarded is still a message that nobody has done.
    const again = deliverySource(['m1', 'm3', 'm4'].map(id => ({ id, key: 'a' })));
    await consumer.run({ source: again });
    expect(again.outcomes).toEqual(['duplicate', 'processed', 'processed']);
  },
);
