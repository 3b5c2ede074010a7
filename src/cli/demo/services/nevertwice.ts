import { createConsumer } from '../../../create-consumer.ts';
import { trusted } from '../../../handlers.ts';
import type { PointAt } from '../../../ports/points.ts';
import { sqliteStore } from '../../../stores/sqlite/index.ts';
import type { Payment } from '../payment.ts';
import type { Service } from './service.ts';

/** The id is claimed in the very transaction that credits. */
export const nevertwice: Service = async ({ source, stopped, file, reach }) => {
  const store = sqliteStore(file);
  const consumer = createConsumer({
    name: 'wallet',
    source,
    store,
    // Small, so that a kill finds transactions with some payments in them and others still to come.
    maxBatch: 10,
    body: trusted<Payment>(),
    handle: async ({ body: { id, customer, cents } }, { sql }) => {
      await sql`INSERT INTO credits (payment, customer, cents) VALUES (${id}, ${customer}, ${cents})`;
    },
  });
  // What was received is counted by the bridge, for all services alike.
  const reachPoint = async ({ step, edge, ids }: PointAt) => {
    if (step !== 'receive') await reach(step, edge, ids.length);
  };
  await consumer.run({ signal: stopped, points: { reach: reachPoint } });
  await store.close();
};
