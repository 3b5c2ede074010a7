import pg from 'pg';
import { createConsumer } from '../src/index.ts';
import { memorySource } from '../src/sources/memory/index.ts';
import { postgresStore } from '../src/stores/postgres/index.ts';

const mode = process.argv[2]!;
const pool = new pg.Pool({
  connectionString: 'postgres://postgres:pw@127.0.0.1:54329/postgres',
  pipeline: true,
  max: 4,
} as any);
await pool.query(
  'drop schema if exists prof cascade; drop table if exists pw; create table pw (id int primary key, balance bigint not null) with (fillfactor=50)',
);
await pool.query('insert into pw select i, 0 from generate_series(0,999) i');
const store = postgresStore(pool, { schema: 'prof' });
const N = Number(process.argv[3] ?? 40000);
const msgs = Array.from({ length: N }, (_, i) => ({
  id: crypto.randomUUID(),
  key: `c${i % 1000}`,
  body: { wallet: i % 1000, amount: 1 },
}));
const all = msgs.flatMap((m, i) => (i % 10 === 0 ? [m, m] : [m]));
const source = memorySource(all, { partitions: 1 });
const common = { name: 'w', store, source, fingerprint: process.argv[4] !== 'off' };
const consumer =
  mode === 'set'
    ? createConsumer({
        ...common,
        handleBatch: async (ms, ctx) => {
          const sums = new Map<number, number>();
          for (const m of ms) {
            const b = m.body as any;
            sums.set(b.wallet, (sums.get(b.wallet) ?? 0) + b.amount);
          }
          const keys = [...sums.keys()].sort((a, b) => a - b);
          await ctx.tx.query({
            name: 'setu',
            text: 'update pw set balance = balance + d.a from unnest($1::int[], $2::int[]) as d(c, a) where id = d.c',
            values: [keys, keys.map(k => sums.get(k))],
          });
        },
      })
    : createConsumer({
        ...common,
        ...(mode === 'overlap' ? { overlap: 'by-key' as const } : {}),
        ...(mode === 'single' ? { maxBatch: 1 } : {}),
        handle: async (m, ctx) => {
          const b = m.body as any;
          await ctx.tx.query({
            name: 'u',
            text: 'update pw set balance = balance + $1 where id = $2',
            values: [b.amount, b.wallet],
          });
        },
      });
const t = performance.now();
console.log(await consumer.run());
console.log(
  mode,
  Math.round((all.length / (performance.now() - t)) * 1000),
  'msg/s',
  (await pool.query('select sum(balance) from pw')).rows[0],
);
await pool.end();
