import type { Contestant } from '../contest.ts';
import type { Payment } from '../sql/load.ts';
import { walletContestant } from '../sql/postgres/place.ts';
import { claim, credit, creditAll } from '../sql/postgres/statements.ts';
import type { BenchClient } from './clients.ts';
import type { TopicLoad } from './load.ts';
import type { KafkaPlace } from './place.ts';
import { PARTITIONS, readAll } from './reader.ts';

/** The usual consumer: a transaction for each message, with its id in it. */
export function eachMessage(place: KafkaPlace, client: BenchClient, load: TopicLoad): Contestant {
  return walletContestant(place.postgres, {
    id: `kafka.${client.name}.each-message`,
    load,
    async open(schema) {
      await place.filled(load);
      const reader = client.byHand(place.brokers);
      const pool = place.postgres.pool({ max: PARTITIONS });
      const claiming = claim(schema);
      const crediting = credit(schema);
      return () => () =>
        readAll(reader, load, {
          async eachMessage(message) {
            const connection = await pool.connect();
            await connection.query('begin');
            const { rows } = await connection.query(claiming.with([reader.idOf(message)]));
            if (rows.length > 0) await connection.query(crediting.with(JSON.parse(reader.valueOf(message))));
            await connection.query('commit');
            connection.release();
          },
        });
    },
  });
}

/** As a skilled engineer writes it: 500 records a transaction, one pipelined connection a partition, everything prepared. */
export function batchLoop(place: KafkaPlace, client: BenchClient, load: TopicLoad): Contestant {
  return walletContestant(place.postgres, {
    id: `kafka.${client.name}.loop.batch`,
    load,
    async open(schema) {
      await place.filled(load);
      const reader = client.byHand(place.brokers);
      const connections = await connectionsOf(place);
      const claiming = claim(schema);
      const crediting = creditAll(schema);
      return () => () =>
        readAll(reader, load, {
          async eachBatch(partition, messages) {
            const connection = connections[partition]!;
            const firsts = new Map<string, unknown>();
            for (const message of messages) {
              const id = reader.idOf(message);
              if (!firsts.has(id)) firsts.set(id, message);
            }
            const [, { rows }] = await Promise.all([
              connection.query('begin'),
              connection.query<{ message_id: string }>(claiming.with([...firsts.keys()].sort())),
            ]);
            const fresh = rows.map(row => JSON.parse(reader.valueOf(firsts.get(row.message_id))) as Payment);
            await Promise.all([connection.query(crediting.with(fresh)), connection.query('commit')]);
          },
        });
    },
  });
}

/** The same without an inbox, and so without an answer to wait for before the effect: counts every copy. */
export function plainLoop(place: KafkaPlace, client: BenchClient, load: TopicLoad): Contestant {
  return walletContestant(place.postgres, {
    id: `kafka.${client.name}.loop.plain`,
    load,
    async open(schema) {
      await place.filled(load);
      const reader = client.byHand(place.brokers);
      const connections = await connectionsOf(place);
      const crediting = creditAll(schema);
      return () => () =>
        readAll(reader, load, {
          async eachBatch(partition, messages) {
            const connection = connections[partition]!;
            const payments = messages.map(message => JSON.parse(reader.valueOf(message)) as Payment);
            await Promise.all([
              connection.query('begin'),
              connection.query(crediting.with(payments)),
              connection.query('commit'),
            ]);
          },
        });
    },
  });
}

function connectionsOf({ postgres }: KafkaPlace) {
  return Promise.all(Array.from({ length: PARTITIONS }, () => postgres.client({ pipeline: true })));
}
