// A consumer in a process of its own, to be killed: `node kafka-child.ts <client> <broker> <topic> <group> <database url>
// [dedupe]`.
// Prints a line when it has handled its first message.
import { Pool } from 'pg';
import { createConsumer } from '../../src/index.ts';
import { kafkaSource } from '../../src/sources/kafka/index.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { clientNamed } from '../support/kafka-clients.ts';

const [name, broker, topic, group, database, dedupe = 'id'] = process.argv.slice(2) as [string, ...string[]] as [
  string,
  string,
  string,
  string,
  string,
  ('id' | 'position' | 'both')?,
];
const client = clientNamed(name).make(broker, { sessionTimeoutMs: 2_000, heartbeatMs: 300 });
const store = postgresStore(new Pool({ connectionString: database, pipeline: true, max: 5 }));

let first = true;
const consumer = createConsumer({
  name: 'pay',
  source: kafkaSource({ client, topics: [topic], groupId: group }),
  store,
  dedupe,
  maxBatch: 20,
  // The kills are no message's fault, and may meet the same one again and again.
  quarantineAfter: 100,
  async handle({ id, body }, { sql }) {
    const { account, amount } = body as { account: string; amount: number };
    await sql`UPDATE wallet SET balance = balance + ${amount} WHERE account = ${account}`;
    await sql`INSERT INTO ledger (message_id) VALUES (${id})`;
    if (first) process.stdout.write('working\n');
    first = false;
  },
});
process.once('SIGTERM', () => void consumer.stop());
await consumer.run();
process.exit(0);
