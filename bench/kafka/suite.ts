import { contest, resultsFor } from '../contest.ts';
import type { Suite } from '../suites.ts';
import { availableClients, CLIENTS } from './clients.ts';
import { contestantsFor, FULL, QUICK, rowsFor } from './consumers.ts';
import { KafkaPlace } from './place.ts';

const ROUNDS = { full: 5, quick: 1 };

export const kafkaSuite: Suite = {
  name: 'kafka',
  about: 'from a Kafka broker into PostgreSQL with three clients: eachMessage, batches by hand, handleBatch',
  ids: CLIENTS.flatMap(({ name }) => rowsFor(name).map(row => row.id)),
  async run({ quick, wants, say }) {
    const wanted = (client: string) => rowsFor(client).filter(row => wants(row.id));
    const clients = availableClients(client => wanted(client).length > 0, say);
    if (clients.length === 0) return [];
    const place = await KafkaPlace.open();
    try {
      say(await place.facts());
      const results = [];
      // One client after the other: they are compared with their own loops, and rounds of fifteen would lie far apart.
      for (const client of clients) {
        const rows = wanted(client.name);
        const needed = new Set(rows.flatMap(row => [row.of ?? row.id, row.against ?? row.id]));
        const contestants = contestantsFor(place, client, quick ? QUICK : FULL).filter(({ id }) => needed.has(id));
        const timings = await contest(contestants, { rounds: quick ? ROUNDS.quick : ROUNDS.full });
        results.push(...resultsFor(rows, timings));
      }
      say('all balances were right after each run');
      return results;
    } finally {
      await place.close();
    }
  },
};
