import { contest, resultsFor } from '../contest.ts';
import type { Suite } from '../suites.ts';
import { consumers, FULL, QUICK } from './consumers.ts';
import { KafkaPlace } from './place.ts';

const ROUNDS = { full: 5, quick: 1 };

export const kafkaSuite: Suite = {
  name: 'kafka',
  about: 'from a Kafka broker into PostgreSQL with kafkajs: eachMessage, eachBatch by hand, handleBatch',
  ids: consumers(QUICK).rows.map(row => row.id),
  async run({ quick, wants, say }) {
    const shape = consumers(quick ? QUICK : FULL);
    const rows = shape.rows.filter(row => wants(row.id));
    const needed = new Set(rows.flatMap(row => [row.of ?? row.id, row.against ?? row.id]));
    const place = await KafkaPlace.open();
    try {
      say(await place.facts());
      const contestants = shape.contestants(place).filter(({ id }) => needed.has(id));
      const timings = await contest(contestants, { rounds: quick ? ROUNDS.quick : ROUNDS.full });
      say('all balances were right after each run');
      return resultsFor(rows, timings);
    } finally {
      await place.close();
    }
  },
};
