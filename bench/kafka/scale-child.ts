// A member of a group, in a process of its own: `node scale-child.ts <client> <broker> <topic> <group> <database url> <schema>`.
// Tells its parent of the lanes that it has, handles nothing before it hears `begin`, tells of what it settled, and leaves
// at `leave`.
import { Pool } from 'pg';
import { createConsumer } from '../../src/index.ts';
import { kafkaSource } from '../../src/sources/kafka/index.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import type { Payment } from '../sql/load.ts';
import { creditAll } from '../sql/postgres/statements.ts';
import { clientNamed } from './clients.ts';
import { PARTITIONS } from './reader.ts';
import type { FromMember, ToMember } from './scale-members.ts';
import { watchedSource } from './watched-source.ts';

const [name, broker, topic, group, database, schema] = process.argv.slice(2) as [
  string,
  string,
  string,
  string,
  string,
  string,
];
const tell = (message: FromMember) => void process.send!(message);

const begin = Promise.withResolvers<void>();
let lanes = 0;
const store = postgresStore(new Pool({ connectionString: database, pipeline: true, max: PARTITIONS + 1 }), { schema });
const crediting = creditAll(schema);
const consumer = createConsumer({
  name: 'wallet',
  source: watchedSource(kafkaSource({ client: clientNamed(name).ours(broker), topics: [topic], groupId: group }), {
    begin: begin.promise,
    lane({ revoked }) {
      tell({ lanes: ++lanes });
      revoked.addEventListener('abort', () => tell({ lanes: --lanes }), { once: true });
    },
    settled: deliveries => tell({ settled: deliveries }),
  }),
  store,
  concurrency: PARTITIONS,
  handleBatch: (messages, { tx }) => tx.query(crediting.with(messages.map(({ body }) => body as Payment))),
});
process.on('message', (message: ToMember) => {
  if (message === 'begin') begin.resolve();
  else void consumer.stop();
});
// Whoever wants the numbers is gone.
process.once('disconnect', () => process.exit(1));
await consumer.run();
// Kibibytes.
process.send!({ peakMb: (process.resourceUsage().maxRSS * 1_024) / 1e6 } satisfies FromMember, () => process.exit(0));
