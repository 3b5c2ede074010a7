import assert from 'node:assert/strict';
import { isNevertwiceError } from '../../errors.ts';
import type { Sql } from '../../ports/sql.ts';
import type { TransactionalStore, Unit } from '../../ports/store.ts';
import { budget, claimOf, Effects, gate, pause, type Register, registration, rejectsWith } from './support.ts';

/** The handle that handlers write through, and how it dies. */
export function handleTests(test: Register<TransactionalStore<any>>): void {
  test('the result of the work comes out, and statements return rows', async ({ store }) => {
    const inbox = await store.open(registration());
    const effects = await Effects.on(store);
    const result = await inbox.transaction([claimOf('m1')], budget, async unit => {
      const none = await unit.sql`INSERT INTO suite_effects (id, amount) VALUES (${effects.id}, ${500})`;
      const some = await unit.sql<{ amount: number }>`SELECT amount FROM suite_effects WHERE id = ${effects.id}`;
      const returned = await unit.sql<{ amount: number }>`
        INSERT INTO suite_effects (id, amount) VALUES (${effects.id}, ${null}) RETURNING amount`;
      return [[...none], Number(some[0]?.amount), returned[0]?.amount, unit.used];
    });
    assert.deepEqual(result, [[], 500, null, 3]);
  });

  test('a value that is undefined is refused, not written as NULL', async ({ store }) => {
    const inbox = await store.open(registration());
    const effects = await Effects.on(store);
    const work = (unit: Unit<unknown>) =>
      unit.sql`INSERT INTO suite_effects (id, amount) VALUES (${effects.id}, ${undefined})`;
    await rejectsWith('NT_CONFIG', inbox.transaction([claimOf('m1')], budget, work));
    assert.deepEqual(await effects.amounts(), []);
  });

  test('C18: the handle is dead after the commit and after a rollback', async ({ store, useHandle }) => {
    const inbox = await store.open(registration());
    const effects = await Effects.on(store);
    for (const fails of [false, true]) {
      const kept: Unit<unknown>[] = [];
      const ended = inbox.transaction([claimOf(`m ${fails}`)], budget, async unit => {
        await useHandle?.(unit.tx);
        kept.push(unit);
        if (fails) throw new Error('on purpose');
      });
      await (fails ? assert.rejects(ended, /on purpose/) : ended);
      const [unit] = kept as [Unit<unknown>];
      await rejectsWith(
        'NT_TX_CLOSED',
        async () => unit.sql`INSERT INTO suite_effects (id, amount) VALUES (${effects.id}, ${1})`,
      );
      if (useHandle !== undefined) await rejectsWith('NT_TX_CLOSED', async () => useHandle(unit.tx));
      await rejectsWith('NT_TX_CLOSED', async () => unit.savepoint(async () => undefined));
    }
    assert.deepEqual(await effects.amounts(), []);
  });

  test('C18: a write whose await was forgotten is committed, or the message fails', async ({ store }) => {
    const inbox = await store.open(registration());
    const effects = await Effects.on(store);
    const committed = await settles(
      inbox.transaction([claimOf('m1')], budget, async unit => {
        void unit.sql`INSERT INTO suite_effects (id, amount) VALUES (${effects.id}, ${500})`;
      }),
    );
    assert.deepEqual(await effects.amounts(), committed ? [500] : []);
    await inbox.transaction([claimOf('m1')], budget, async unit => assert.deepEqual([...unit.fresh], [!committed]));
  });

  test('C18: a failed write whose await was forgotten fails the message', async ({ store }) => {
    const inbox = await store.open(registration());
    const effects = await Effects.on(store);
    const forgetful = inbox.transaction([claimOf('m1')], budget, async unit => {
      await unit.sql`INSERT INTO suite_effects (id, amount) VALUES (${effects.id}, ${500})`;
      void unit.sql`INSERT INTO suite_no_such_table (id) VALUES (${'x'})`;
    });
    await assert.rejects(forgetful);
    assert.deepEqual(await effects.amounts(), []);
    await inbox.transaction([claimOf('m1')], budget, async unit => assert.deepEqual([...unit.fresh], [true]));
  });

  test('C18: writes side by side of which one fails leave nothing, and the store goes on', async ({ store }) => {
    const inbox = await store.open(registration());
    const effects = await Effects.on(store);
    const work = (unit: Unit<unknown>) =>
      Promise.all([
        unit.sql`INSERT INTO suite_no_such_table (id) VALUES (${'x'})`,
        unit.sql`INSERT INTO suite_effects (id, amount) VALUES (${effects.id}, ${500})`,
      ]);
    await assert.rejects(inbox.transaction([claimOf('m1')], budget, work));
    assert.deepEqual(await effects.amounts(), []);
    await inbox.transaction([claimOf('m1')], budget, async unit => {
      assert.deepEqual([...unit.fresh], [true]);
      await unit.sql`INSERT INTO suite_effects (id, amount) VALUES (${effects.id}, ${500})`;
    });
    assert.deepEqual(await effects.amounts(), [500]);
  });

  test('C11: after an error that the handler swallows, all of its writes are there or none', async ({ store }) => {
    const inbox = await store.open(registration());
    const effects = await Effects.on(store);
    const swallowing = inbox.transaction([claimOf('m1')], budget, async unit => {
      await unit.sql`INSERT INTO suite_effects (id, amount) VALUES (${effects.id}, ${500})`;
      await unit.sql`INSERT INTO suite_no_such_table (id) VALUES (${'x'})`.catch(() => undefined);
    });
    const committed = await settles(swallowing);
    if (!committed) await rejectsWith('NT_TX_ABORTED', swallowing);
    assert.deepEqual(await effects.amounts(), committed ? [500] : []);
    await inbox.transaction([claimOf('m1')], budget, async unit => assert.deepEqual([...unit.fresh], [!committed]));
  });

  test('a handler may not begin, commit or roll back', async ({ store }) => {
    const inbox = await store.open(registration());
    const effects = await Effects.on(store);
    const attempts: ((sql: Sql) => Promise<unknown>)[] = [
      sql => sql`BEGIN`,
      sql => sql`COMMIT`,
      sql => sql`ROLLBACK`,
      sql => sql` /* now */ commit -- then`,
    ];
    for (const attempt of attempts) {
      const work = async (unit: Unit<unknown>) => {
        await unit.sql`INSERT INTO suite_effects (id, amount) VALUES (${effects.id}, ${500})`;
        await attempt(unit.sql);
      };
      await rejectsWith('NT_TX_FORBIDDEN', inbox.transaction([claimOf('m1')], budget, work));
    }
    assert.deepEqual(await effects.amounts(), []);
  });

  test('C13: an error that comes only at the commit fails the message, which is fresh again', async ({ store }) => {
    const inbox = await store.open(registration());
    await store.setup('suite', async sql => {
      await sql`CREATE TABLE IF NOT EXISTS suite_parents (id text PRIMARY KEY)`;
      await sql`CREATE TABLE IF NOT EXISTS suite_children (
        parent text REFERENCES suite_parents (id) DEFERRABLE INITIALLY DEFERRED)`;
    });
    const parent = (await Effects.on(store)).id;
    const work = (unit: Unit<unknown>) => {
      assert.deepEqual([...unit.fresh], [true]);
      return unit.sql`INSERT INTO suite_children (parent) VALUES (${parent})`;
    };
    await assert.rejects(
      inbox.transaction([claimOf('m1')], budget, work),
      error => !isNevertwiceError(error, 'NT_STORE_DOWN'),
    );
    await store.transaction((_, sql) => sql`INSERT INTO suite_parents (id) VALUES (${parent})`);
    await inbox.transaction([claimOf('m1')], budget, work);
  });

  test('C23: an abandoned transaction rejects at once though its handler hangs, and the late write is refused', async ({
    store,
    useHandle,
  }) => {
    const inbox = await store.open(registration());
    const effects = await Effects.on(store);
    const [wrote, wake] = [gate(), gate()];
    const kept: Unit<unknown>[] = [];
    const late = Promise.withResolvers<unknown>();
    const hanging = inbox.transaction([claimOf('m1')], budget, async unit => {
      kept.push(unit);
      await unit.sql`INSERT INTO suite_effects (id, amount) VALUES (${effects.id}, ${500})`;
      wrote.open();
      await wake.opened;
      await unit.sql`INSERT INTO suite_effects (id, amount) VALUES (${effects.id}, ${500})`.then(
        late.resolve,
        late.reject,
      );
    });
    await wrote.opened;
    const reason = new Error('the time limit');
    kept[0]?.abandon(reason);
    const outcome = await Promise.race([hanging.catch(error => error), pause(5_000)]);
    assert.equal(outcome, reason);

    await inbox.transaction([claimOf('m1')], budget, async unit => {
      assert.deepEqual([...unit.fresh], [true]);
      await unit.sql`INSERT INTO suite_effects (id, amount) VALUES (${effects.id}, ${500})`;
      // The zombie wakes up while another transaction is open, maybe on the very same connection.
      wake.open();
      await rejectsWith('NT_TX_CLOSED', late.promise);
      if (useHandle !== undefined) await rejectsWith('NT_TX_CLOSED', async () => useHandle(kept[0]?.tx));
    });
    assert.deepEqual(await effects.amounts(), [500]);
  });

  test('a plain transaction of the store commits, and rolls back when it throws', async ({ store }) => {
    const effects = await Effects.on(store);
    const write = (sql: Sql, amount: number) =>
      sql`INSERT INTO suite_effects (id, amount) VALUES (${effects.id}, ${amount})`;
    assert.equal(await store.transaction(async (_, sql) => (await write(sql, 1)).length), 0);
    const failing = store.transaction(async (_, sql) => {
      await write(sql, 2);
      throw new Error('on purpose');
    });
    await assert.rejects(failing, /on purpose/);
    assert.deepEqual(await effects.amounts(), [1]);
  });
}

function settles(promise: Promise<unknown>): Promise<boolean> {
  return promise.then(
    () => true,
    () => false,
  );
}
