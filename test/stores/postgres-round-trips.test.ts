import { once } from 'node:events';
import { connect, createServer, type Server } from 'node:net';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { encodeKey } from '../../src/identity/encoding.ts';
import type { Unit } from '../../src/ports/store.ts';
import { inlined } from '../../src/stores/postgres/clients/pg-connection.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { statementsFor } from '../../src/stores/postgres/statements.ts';
import { tablesFrom } from '../../src/stores/postgres/tables.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';

/** A link that counts how often the client had to wait for the server: what it sends after an answer is a new trip. */
class Counter {
  trips = 0;
  sent = '';
  #answered = true;
  readonly #server: Server;

  private constructor(target: URL) {
    this.#server = createServer(client => {
      const upstream = connect(Number(target.port), target.hostname);
      client.on('data', data => {
        if (this.#answered) this.trips++;
        this.#answered = false;
        this.sent += data.toString('latin1');
        upstream.write(data);
      });
      upstream.on('data', data => {
        this.#answered = true;
        client.write(data);
      });
      for (const [one, other] of [
        [client, upstream],
        [upstream, client],
      ] as const) {
        one.on('error', () => undefined);
        one.on('close', () => other.destroy());
      }
    });
  }

  static async before(url: string): Promise<Counter> {
    const counter = new Counter(new URL(url));
    counter.#server.listen(0, '127.0.0.1');
    await once(counter.#server, 'listening');
    return counter;
  }

  url(url: string): string {
    const through = new URL(url);
    [through.hostname, through.port] = ['127.0.0.1', String((this.#server.address() as { port: number }).port)];
    return through.href;
  }

  async count(work: () => Promise<unknown>): Promise<number> {
    [this.trips, this.sent] = [0, ''];
    await work();
    return this.trips;
  }

  close(): void {
    this.#server.close();
  }
}

let database: FreshDatabase;
let counter: Counter;
beforeAll(async () => {
  database = await freshDatabase();
  counter = await Counter.before(database.url);
});
afterAll(async () => {
  await database.drop();
  counter.close();
});

let ids = 0;
const claims = (n: number) =>
  Array.from({ length: n }, () => Object.assign(encodeKey(`id ${ids++}`), { fingerprint: 'ab'.repeat(16) }));
const budget = { budgetMs: 5_000, overlap: false };
const write = (unit: Unit<unknown>) => unit.sql`SELECT 1`;

describe.each([
  { name: 'pipelined', pipeline: true, small: 3, large: 3, prepare: true },
  { name: 'plain pool', pipeline: false, small: 3, large: 4, prepare: true },
  { name: 'plain pool behind a pooler', pipeline: false, small: 3, large: 4, prepare: false },
])('$name: BEGIN and the claim travel together', ({ pipeline, small, large, prepare }) => {
  test('one statement of the handler makes three trips: claim, handle, commit', async () => {
    const pool = database.pool({ pipeline, max: 1, connectionString: counter.url(database.url) });
    const inbox = await postgresStore(pool, { prepare }).open({ name: 'pay', signature: 's' });
    const run = (n: number) => () => inbox.transaction(claims(n), budget, write);
    // The first on a connection also sets its keepalives.
    await run(1)();
    expect(await counter.count(run(1))).toBe(small);
    expect(await counter.count(run(20))).toBe(small);
    expect(await counter.count(run(500))).toBe(large);
    // Prepared once, its text is not sent again.
    await run(500)();
    await counter.count(run(500));
    expect(counter.sent.includes('INSERT INTO')).toBe(!prepare);
    expect(await counter.count(() => inbox.transaction([], budget, write))).toBe(3);
    await pool.end();
  });

  test('answers that are asked for at once and needed at the end cost a pipelined handler no trip', async () => {
    const pool = database.pool({ pipeline, max: 1, connectionString: counter.url(database.url) });
    const inbox = await postgresStore(pool, { prepare }).open({ name: 'pay', signature: 's' });
    const known = claims(2);
    await inbox.transaction(known, budget, write);
    const trips = await counter.count(() =>
      inbox.transaction([...known, ...claims(1)], budget, async unit => {
        const answers = unit.answers();
        await write(unit);
        expect((await answers).map(answer => answer.answer)).toEqual(['duplicate', 'duplicate', 'fresh']);
      }),
    );
    expect(trips).toBe(pipeline ? 3 : 4);
    await pool.end();
  });
});

const outsideQuotes = (text: string) => text.replaceAll(/"(?:[^"]|"")*"/g, '""').replaceAll(/'[^']*'/g, "''");

describe('ids in the text of a statement', () => {
  const statements = statementsFor(tablesFrom({ schema: 'a"$1$2', tables: { inbox: `$1'$$` } }));
  const id = fc.oneof(
    fc.string({ unit: 'binary', minLength: 1 }),
    fc.constantFrom("'; DROP TABLE x; --", '$1', '\\', '"'),
  );

  test('whatever the ids, only hex gets there, between quotes', () => {
    fc.assert(
      fc.property(
        fc.array(id, { minLength: 1, maxLength: 20 }),
        fc.boolean(),
        fc.nat(),
        (list, fingerprinted, consumer) => {
          const keys = list.map(text => encodeKey(text).hex);
          const fingerprints = list.map((_, i) => (fingerprinted && i % 2 === 0 ? 'ab'.repeat(16) : undefined));
          const claim = statements.claim(consumer, keys, fingerprints, { lockMs: 100, idleMs: 1_000 });
          const text = inlined(claim);
          if (text === undefined)
            return expect(keys.join(',').length + fingerprints.join(',').length).toBeGreaterThan(1_500);
          expect(text).toContain(`'${keys.join(',')}'`);
          // Without what stands in quotes nothing is left that came from outside: it is the text of any other claim.
          const other = inlined(statements.claim(7, ['02'], [fingerprints[0]], { lockMs: 1, idleMs: 1 }))!;
          expect(outsideQuotes(text)).toBe(outsideQuotes(other));
        },
      ),
    );
  });

  test('a value that is no hex is never put into text, whatever it is', () => {
    const value = fc.oneof(
      fc.string(),
      fc.integer(),
      fc.double(),
      fc.constant(null),
      fc.stringMatching(/^[0-9a-f,]{0,20}$/),
    );
    fc.assert(
      fc.property(fc.array(value, { minLength: 1, maxLength: 5 }), values => {
        const text = inlined({ name: '', text: values.map((_, i) => `$${i + 1}`).join(' '), values });
        const plain = values.every(v => v === null || /^[0-9a-f,]*$/.test(String(v)));
        expect(text === undefined).toBe(!plain);
        if (plain) expect(text).toBe(values.map(v => (v === null ? 'NULL' : `'${v}'`)).join(' '));
      }),
    );
  });

  test('a large batch goes as parameters', () => {
    const keys = Array.from({ length: 500 }, (_, i) => encodeKey(`id ${i}`).hex);
    expect(
      inlined(
        statements.claim(
          1,
          keys,
          keys.map(() => undefined),
          { lockMs: 1, idleMs: 1 },
        ),
      ),
    ).toBeUndefined();
  });
});
