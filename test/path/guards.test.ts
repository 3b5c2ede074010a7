import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createInbox, isNevertwiceError, lastEventGuard, type Sql, versionGuard } from '../../src/index.ts';
import { backends, type WalletStore } from '../support/wallet.ts';

describe.each(backends)('guarded writes: $name', ({ create }) => {
  let w: WalletStore;
  const versions = versionGuard('account "versions"');
  const events = lastEventGuard();
  beforeEach(async () => {
    w = await create();
    await w.store.setup('pay', async sql => {
      for (let starts = 0; starts < 2; starts++) for (const guard of [versions, events]) await guard.setup(sql);
    });
  });
  afterEach(() => w.drop());

  const inTransaction = <R>(work: (sql: Sql) => Promise<R>) => w.store.transaction((_, sql) => work(sql));
  const accepted = async <M>(
    accepts: (sql: Sql, entity: string, mark: M) => Promise<boolean>,
    ...marks: readonly M[]
  ) => {
    const answers: boolean[] = [];
    for (const mark of marks) answers.push(await inTransaction(sql => accepts(sql, 'alice', mark)));
    return answers;
  };

  test('by version, copies and what was overtaken are refused, however late they come', async () => {
    const answers = await accepted<number | bigint>(versions.accepts, 1, 1, 3, 2, 3, 1, 4n, 4, 2n ** 63n - 1n, 5);
    expect(answers).toEqual([true, false, true, false, false, false, true, false, true, false]);
    expect(await inTransaction(sql => versions.accepts(sql, 'bob', 1))).toBe(true);
  });

  test('by the last event, a copy right behind is refused', async () => {
    expect(await accepted(events.accepts, 'A', 'A', 'B', 'B')).toEqual([true, false, true, false]);
  });

  test('by the last event, A, B, A lets the second A through: that is its hole, and a version has none', async () => {
    expect(await accepted(events.accepts, 'A', 'B', 'A')).toEqual([true, true, true]);
    expect(await accepted<number | bigint>(versions.accepts, 1, 2, 1)).toEqual([true, true, false]);
  });

  test('the mark is rolled back with the effect', async () => {
    const fails = inTransaction(async sql => {
      expect(await versions.accepts(sql, 'alice', 1)).toBe(true);
      throw new Error('after the mark');
    });
    await expect(fails).rejects.toThrow('after the mark');
    expect(await inTransaction(sql => versions.accepts(sql, 'alice', 1))).toBe(true);
  });

  test('behind an inbox that has forgotten, it is what keeps the effect at one', async () => {
    const inbox = createInbox({ name: 'pay', store: w.store });
    const deliver = () =>
      inbox.process({ id: 'm1', body: {} }, async (_, { sql }) => {
        if (!(await versions.accepts(sql, 'alice', 7))) return 'old';
        await sql`UPDATE wallet SET balance = 500 WHERE account = 'alice'`;
        return 'done';
      });
    await w.sql`INSERT INTO wallet (account, balance) VALUES ('alice', 0)`;
    expect(await deliver()).toMatchObject({ status: 'processed', result: 'done' });
    await w.forgetIds();
    expect(await deliver()).toMatchObject({ status: 'processed', result: 'old' });
    expect(await w.balance('alice')).toBe(500);
  });

  test.each([-1, 1.5, Number.NaN, 2 ** 53, 2n ** 63n, '1' as never])('version %s is refused', async version => {
    const asked = inTransaction(sql => versions.accepts(sql, 'alice', version));
    await expect(asked).rejects.toSatisfy(error => isNevertwiceError(error, 'NT_CONFIG'));
  });
});
