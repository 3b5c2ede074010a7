import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { brokers } from '../support/kafka.ts';
import { committedOf, testKafka } from '../support/kafka-topics.ts';
import { freshDatabase } from '../support/postgres.ts';
import { until } from '../support/until.ts';
import { start } from './program.ts';

const example = (file: string) => fileURLToPath(new URL(`../../examples/kafka-wallet/${file}`, import.meta.url));

test('the example: payments from Kafka, a tenth of them sent twice, stopped and started again, count once', {
  timeout: 120_000,
}, async () => {
  const database = await freshDatabase();
  const pool = database.pool({ max: 2 });
  const admin = testKafka().admin();
  await admin.connect();
  const env = { KAFKA: brokers(), DATABASE_URL: database.url };
  const produce = () =>
    promisify(execFile)(process.execPath, [example('produce.ts')], { env: { ...process.env, ...env } });
  const committed = async () => {
    const offsets = (await committedOf(admin, 'kafka-wallet', 'payments')) ?? [];
    return offsets.reduce((sum, offset) => sum + Math.max(0, offset), 0);
  };
  const ended = async (offsets: number) => {
    const running = start(['run', example('consumer.ts'), '--json'], { env });
    await until('all are committed', async () => (await committed()) === offsets, 60_000);
    running.child.kill('SIGINT');
    return running.ended;
  };
  try {
    const { stdout } = await produce();
    expect(stdout).toBe('sent 1100 records, 1000 different payments: 50000 cents for each of 10 customers\n');
    const first = await ended(1_100);
    expect(first).toMatchObject({ code: 130 });
    expect(JSON.parse(first.stdout)).toEqual({
      processed: 1_000,
      duplicates: 100,
      conflicts: 0,
      deadLetters: 0,
      failed: 0,
    });
    await produce();
    const second = await ended(2_200);
    expect(JSON.parse(second.stdout)).toMatchObject({ processed: 1_000, duplicates: 100 });
    const { rows } = await pool.query(
      'SELECT DISTINCT balance_cents::int AS cents, count(*) OVER ()::int AS n FROM wallet',
    );
    expect(rows).toEqual([{ cents: 100_000, n: 10 }]);
  } finally {
    await admin.disconnect();
    await pool.end();
    await database.drop();
  }
});
