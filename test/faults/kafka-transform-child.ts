// A transform in a process of its own, to be killed: `node kafka-transform-child.ts <client> <broker> <input> <output> <group>`.
// Prints `produced` whenever outputs are written and not committed. With a sixth argument, the URL
// of a database, the transform also inserts every record into the table `seen`; with a seventh, `hold`, it stands still for good in
// its first transaction.
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'pg';
import { kafkaTransform } from '../../src/sources/kafka/index.ts';
import { clientNamed } from '../support/kafka-clients.ts';

const [name, broker, input, output, group, database, hold] = process.argv.slice(2) as [
  string,
  string,
  string,
  string,
  string,
  string?,
  string?,
];
const pool = database ? new Pool({ connectionString: database, max: 1 }) : undefined;

const transform = kafkaTransform<string>({
  client: clientNamed(name).make(broker, { sessionTimeoutMs: 2_000, heartbeatMs: 300 }),
  topics: [input],
  groupId: group,
  maxBatch: 10,
  transform: async ({ body }) => {
    await pool?.query('INSERT INTO seen VALUES ($1)', [body]);
    return { topic: output, key: body, value: body };
  },
});
process.once('SIGTERM', () => void transform.stop());
await transform.run({
  points: {
    async reach({ step, edge }) {
      if (step !== 'record') return;
      if (edge === 'after') return;
      process.stdout.write('produced\n');
      if (hold !== undefined) await new Promise(() => undefined);
      // Long enough for the signal to meet it here.
      await sleep(30);
    },
  },
});
process.exit(0);
