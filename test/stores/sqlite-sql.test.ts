import { describe, expect, test } from 'vitest';
import type { Sql } from '../../src/ports/sql.ts';
import { clients } from './sqlite-clients.ts';
import { budget, claimOf, walletOn } from './sqlite-support.ts';

describe.each(Object.keys(clients))('sql on %s', client => {
  test('values and rows are the same whichever client is underneath', async () => {
    await using wallet = await walletOn(client);
    const rows = await wallet.store.transaction(
      (_, sql) => sql`SELECT ${true} AS yes, ${false} AS no, ${new Date(0)} AS date, ${7} AS small, ${2n ** 60n} AS big,
        ${1.5} AS real, ${'a"b\'c'} AS text, ${null} AS none, ${Uint8Array.of(0, 255)} AS bytes,
        ${Number.MAX_SAFE_INTEGER} AS most, typeof(${7}) AS kind`,
    );
    expect(rows).toHaveLength(1);
    const { bytes, ...row } = rows[0] as Record<string, unknown>;
    expect(bytes).toBeInstanceOf(Uint8Array);
    expect([...(bytes as Uint8Array)]).toEqual([0, 255]);
    expect(row).toEqual({
      yes: 1,
      no: 0,
      date: '1970-01-01T00:00:00.000Z',
      small: 7,
      big: 2n ** 60n,
      real: 1.5,
      text: 'a"b\'c',
      none: null,
      most: Number.MAX_SAFE_INTEGER,
      kind: 'integer',
    });
  });

  test('C38: an integer in a TEXT column stays as it is written', async () => {
    await using wallet = await walletOn(client);
    const rows = await wallet.store.transaction(
      (_, sql) => sql`INSERT INTO wallet (note, amount) VALUES (${7}, ${500}) RETURNING note, amount, id`,
    );
    expect(rows).toEqual([{ note: '7', amount: 500, id: 1 }]);
  });

  test('a lone value of any kind is a parameter', async () => {
    await using wallet = await walletOn(client);
    const values = { blob: Uint8Array.of(1, 2), null: null, text: 'x', integer: 1n, real: 0.5 };
    for (const [kind, value] of Object.entries(values)) {
      const rows = await wallet.store.transaction((_, sql) => sql`SELECT typeof(${value}) AS kind`);
      expect(rows).toEqual([{ kind }]);
    }
  });

  test('values that the clients would bend are refused by position', async () => {
    await using wallet = await walletOn(client);
    const refused: readonly (readonly [unknown, RegExp])[] = [
      [undefined, /value 2 .* is undefined/],
      [Number.NaN, /value 2 .* is NaN/],
      [{ a: 1 }, /value 2 .* is an object/],
      [[1], /value 2 .* is an object/],
      [new Date(Number.NaN), /value 2 /],
      [Symbol('s'), /value 2 /],
      [() => 1, /value 2 /],
    ];
    for (const [value, message] of refused) {
      const transaction = wallet.store.transaction((_, sql) => sql`SELECT ${1}, ${value}`);
      await expect(transaction).rejects.toMatchObject({ code: 'NT_CONFIG', message: expect.stringMatching(message) });
    }
  });

  test('several statements in one text are refused, since two of the clients drop all but the first', async () => {
    await using wallet = await walletOn(client);
    const both = (sql: Sql) => sql`INSERT INTO wallet (amount) VALUES (1); INSERT INTO wallet (amount) VALUES (2)`;
    await expect(wallet.store.transaction((_, sql) => both(sql))).rejects.toMatchObject({ code: 'NT_CONFIG' });
    await wallet.store.transaction((_, sql) => sql`INSERT INTO wallet (amount) VALUES (3); -- and no more;`);
    expect(wallet.amounts()).toEqual([3]);
  });

  test('C18: a failed statement that nobody awaits fails the message, and one that is looked at does not', async () => {
    await using wallet = await walletOn(client);
    const unseen = wallet.inbox.transaction([claimOf('m1')], budget, async ({ sql }) => {
      void sql`INSERT INTO nowhere VALUES (1)`;
      await sql`INSERT INTO wallet (amount) VALUES (1)`;
    });
    await expect(unseen).rejects.toMatchObject({
      code: 'NT_TX_ABORTED',
      cause: expect.objectContaining({ message: expect.stringMatching(/no such table/) }),
    });
    await wallet.inbox.transaction([claimOf('m1')], budget, async ({ sql, fresh }) => {
      expect(fresh).toEqual([true]);
      const later = sql`INSERT INTO nowhere VALUES (1)`;
      const [settled] = await Promise.allSettled([sql`INSERT INTO nowhere VALUES (2)`]);
      expect(settled.status).toBe('rejected');
      await sql`INSERT INTO wallet (amount) VALUES (2)`;
      await expect(later).rejects.toThrow(/no such table/);
    });
    expect(wallet.amounts()).toEqual([2]);
  });
});
