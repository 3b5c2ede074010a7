import { describe, expect, test } from 'vitest';
import type { Unit } from '../../src/ports/store.ts';
import type { SqliteDatabase } from '../../src/stores/sqlite/index.ts';
import { clients } from './sqlite-clients.ts';
import { budget, claimOf, walletOn } from './sqlite-support.ts';

/** Beyond what the types of the store promise, the handle is the client's own object. */
type Loose = Record<string, (...args: unknown[]) => unknown>;
const loose = (tx: SqliteDatabase) => tx as unknown as Loose;
const has = (tx: SqliteDatabase, method: string) => typeof (tx as unknown as Loose)[method] === 'function';

describe.each(Object.keys(clients))('the handle on %s', client => {
  test('C18: statements prepared in a transaction are dead after it, also those that were run', async () => {
    await using wallet = await walletOn(client);
    const kept = await wallet.inbox.transaction([claimOf('m1')], budget, async ({ tx }) => {
      const insert = tx.prepare('INSERT INTO wallet (amount) VALUES (1)');
      insert.run();
      return { insert, select: tx.prepare('SELECT * FROM wallet'), tx };
    });
    const closed = { code: 'NT_TX_CLOSED' };
    expect(() => kept.insert.run()).toThrow(expect.objectContaining(closed));
    expect(() => kept.select.get()).toThrow(expect.objectContaining(closed));
    expect(() => kept.select.all()).toThrow(expect.objectContaining(closed));
    expect(() => loose(kept.select as never).iterate!()).toThrow(expect.objectContaining(closed));
    expect(() => kept.tx.exec('INSERT INTO wallet (amount) VALUES (2)')).toThrow(expect.objectContaining(closed));
    expect(() => kept.tx.prepare('SELECT 1')).toThrow(expect.objectContaining(closed));
    expect(wallet.amounts()).toEqual([1]);
  });

  test('what would end the transaction is refused by name, hidden in several statements or not', async () => {
    await using wallet = await walletOn(client);
    for (const text of ['COMMIT', 'rollback', 'BEGIN', 'END', 'INSERT INTO wallet (amount) VALUES (2); COMMIT']) {
      const work = async ({ tx }: Unit<SqliteDatabase>) => {
        tx.exec('INSERT INTO wallet (amount) VALUES (1)');
        tx.exec(text);
      };
      const transaction = wallet.inbox.transaction([claimOf('m1')], budget, work);
      await expect(transaction, text).rejects.toMatchObject({ code: 'NT_TX_FORBIDDEN' });
    }
    const prepared = wallet.inbox.transaction([claimOf('m1')], budget, async ({ tx }) => tx.prepare('COMMIT').run());
    await expect(prepared).rejects.toMatchObject({ code: 'NT_TX_FORBIDDEN' });
    expect(wallet.amounts()).toEqual([]);
  });

  test('methods that end things or go around the guard are refused by name', async () => {
    await using wallet = await walletOn(client);
    await wallet.inbox.transaction([claimOf('m1')], budget, async ({ tx }) => {
      const refused = ['close', 'transaction', 'backup', 'serialize', 'createTagStore', 'loadExtension', 'deserialize'];
      for (const method of refused.filter(name => has(tx, name))) {
        expect(() => loose(tx)[method]!(() => undefined), method).toThrow(
          expect.objectContaining({ code: 'NT_TX_FORBIDDEN', message: expect.stringContaining(`${method}()`) }),
        );
      }
      expect(has(tx, 'close')).toBe(true);
      if (has(tx, 'pragma')) {
        expect(loose(tx).pragma!('user_version')).toMatchObject([{ user_version: 0 }]);
        expect(() => loose(tx).pragma!('busy_timeout = 5000')).toThrow(/setting a pragma is refused/);
      }
      expect(tx).toBeInstanceOf(wallet.database.constructor);
      expect((tx.prepare('SELECT 1') as { database?: unknown }).database ?? tx).toBe(tx);
    });
  });

  test('C10: an iterator left half read stands in the way of neither commit nor rollback nor the next message', async () => {
    await using wallet = await walletOn(client);
    await wallet.inbox.transaction([], budget, async ({ tx }) => {
      for (let i = 0; i < 500; i++) tx.exec('INSERT INTO wallet (amount) VALUES (1)');
    });
    for (const id of ['commits', 'rolls back']) {
      let iterator: Iterator<unknown> | undefined;
      const work = async ({ tx }: Unit<SqliteDatabase>) => {
        iterator = loose(tx.prepare('SELECT * FROM wallet') as never).iterate!() as Iterator<unknown>;
        expect(iterator.next().value).toMatchObject({ amount: 1 });
        if (id === 'rolls back') throw new Error(id);
      };
      const transaction = wallet.inbox.transaction([claimOf(id)], budget, work);
      await (id === 'commits' ? transaction : expect(transaction).rejects.toThrow(id));
      expect(() => iterator!.next()).toThrow(expect.objectContaining({ code: 'NT_TX_CLOSED' }));
    }
    await wallet.inbox.transaction([claimOf('next')], budget, async ({ tx }) => tx.exec('DELETE FROM wallet'));
    expect(wallet.amounts()).toEqual([]);
  });

  test('an iterator gives all rows, and ends early when it is told to', async () => {
    await using wallet = await walletOn(client);
    await wallet.inbox.transaction([], budget, async ({ tx }) => {
      for (let i = 0; i < 3; i++) tx.exec(`INSERT INTO wallet (amount) VALUES (${i})`);
      const iterate = () => loose(tx.prepare('SELECT amount FROM wallet ORDER BY id') as never).iterate!();
      const rows = [...(iterate() as Iterable<{ amount: number }>)];
      expect(rows.map(row => row.amount)).toEqual([0, 1, 2]);
      for (const row of iterate() as Iterable<{ amount: number }>) if (row.amount === 1) break;
      tx.exec('INSERT INTO wallet (amount) VALUES (3)');
    });
    expect(wallet.amounts()).toEqual([0, 1, 2, 3]);
  });

  test('a transaction that SQLite itself rolled back fails the message; nothing is written without its claim', async () => {
    await using wallet = await walletOn(client);
    wallet.database.exec("INSERT INTO wallet (note, amount) VALUES ('taken', 0)");
    const swallowing = wallet.inbox.transaction([claimOf('m1')], budget, async ({ tx, sql }) => {
      tx.exec('INSERT INTO wallet (amount) VALUES (1)');
      expect(() => tx.exec("INSERT OR ROLLBACK INTO wallet (note, amount) VALUES ('taken', 2)")).toThrow(/UNIQUE/);
      // Each of these would commit by itself.
      expect(() => tx.exec('INSERT INTO wallet (amount) VALUES (3)')).toThrow(/rolled everything back/);
      await expect(sql`INSERT INTO wallet (amount) VALUES (4)`).rejects.toThrow(/rolled everything back/);
    });
    await expect(swallowing).rejects.toMatchObject({ code: 'NT_TX_ABORTED' });
    expect(wallet.amounts()).toEqual([0]);
    await wallet.inbox.transaction([claimOf('m1')], budget, async unit => expect(unit.fresh).toEqual([true]));
  });

  test('savepoints that overlap are refused: undoing one would undo the other', async () => {
    await using wallet = await walletOn(client);
    const write = (unit: Unit<SqliteDatabase>, amount: number) =>
      unit.sql`INSERT INTO wallet (amount) VALUES (${amount})`;
    const work = async (unit: Unit<SqliteDatabase>) => {
      await write(unit, 1);
      const slow = unit.savepoint(async () => {
        await write(unit, 2);
        await new Promise(resolve => setImmediate(resolve));
        throw new Error('the slow one fails');
      });
      const refused = unit.savepoint(() => write(unit, 3));
      await expect(refused).rejects.toMatchObject({
        code: 'NT_TX_FORBIDDEN',
        message: expect.stringMatching(/overlap/),
      });
      await expect(slow).rejects.toThrow(/the slow one fails/);
      await unit.savepoint(() => write(unit, 4));
    };
    await wallet.inbox.transaction([claimOf('m1')], budget, work);
    expect(wallet.amounts()).toEqual([1, 4]);
  });

  test('a savepoint that ends while one inside it is still open is undone', async () => {
    await using wallet = await walletOn(client);
    await wallet.inbox.transaction([claimOf('m1')], budget, async unit => {
      const later = Promise.withResolvers<void>();
      let inner: Promise<unknown> | undefined;
      const outer = unit.savepoint(async () => {
        await unit.sql`INSERT INTO wallet (amount) VALUES (1)`;
        inner = unit.savepoint(() => later.promise);
      });
      await expect(outer).rejects.toMatchObject({ code: 'NT_TX_FORBIDDEN' });
      later.resolve();
      await expect(inner).rejects.toThrow();
      await unit.savepoint(async () => unit.sql`INSERT INTO wallet (amount) VALUES (2)`);
    });
    expect(wallet.amounts()).toEqual([2]);
  });
});
