import { kafkaMissing } from '../../scripts/kafka/programs.ts';
import { contest, type Result, resultsFor } from '../contest.ts';
import { KafkaPlace } from '../kafka/place.ts';
import { PostgresPlace } from '../sql/postgres/place.ts';
import type { Suite } from '../suites.ts';
import { adders, addRows } from './add.ts';
import { latency, latencyIds } from './latency.ts';
import { relayRows, relays } from './relay.ts';

const SIZES = {
  full: { rounds: 5, adds: 40_000, backlog: 1_000_000, relayed: 1_000_000, seconds: 20 },
  quick: { rounds: 1, adds: 4_000, backlog: 20_000, relayed: 20_000, seconds: 2 },
};

export const outboxSuite: Suite = {
  name: 'outbox',
  about: 'what adding costs a handler, how fast a relay empties a table into Kafka, how long a message waits',
  ids: [...addRows, ...relayRows].map(({ id }) => id).concat(latencyIds),
  async run({ quick, wants, say }) {
    const size = quick ? SIZES.quick : SIZES.full;
    const results: Result[] = [];
    const adds = addRows.filter(({ id }) => wants(id));
    const relayed = relayRows.filter(({ id }) => wants(id));
    const needed = new Set([...adds, ...relayed].flatMap(row => [row.id, row.against ?? row.id]));
    const place = await PostgresPlace.open();
    try {
      say(await place.facts());
      const adding = adders(place, size.adds, size.backlog).filter(({ id }) => needed.has(id));
      if (adding.length > 0) results.push(...resultsFor(adds, await contest(adding, { rounds: size.rounds })));
      for (const id of latencyIds) if (wants(id)) results.push(await latency(place, id, size.seconds));
    } finally {
      await place.close();
    }
    if (relayed.length === 0) return results;
    const missing = await kafkaMissing();
    if (missing !== undefined) {
      say(`the relay is left out: ${missing}`);
      return results;
    }
    const broker = await KafkaPlace.open();
    try {
      say(await broker.facts());
      const relaying = relays(broker, size.relayed).filter(({ id }) => needed.has(id));
      results.push(...resultsFor(relayed, await contest(relaying, { rounds: Math.min(size.rounds, 3) })));
      say('all messages were there after each run');
    } finally {
      await broker.close();
    }
    return results;
  },
};
