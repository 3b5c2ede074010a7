// Sends payments at a steady rate, whatever becomes of them: `node scale-producer.ts <broker> <topic> <partitions> <first>
// <records a second> <ms>`. `first` is the number of the first payment. Tells its parent how many it has sent.
import { setTimeout as sleep } from 'node:timers/promises';
import { Kafka, logLevel } from 'kafkajs';
import { payment } from './load.ts';

const EVERY_MS = 20;
/** A request holds at most a megabyte for a partition, and a record is a kilobyte. */
const RECORDS_A_SEND = 500;

const [broker, topic] = process.argv.slice(2) as [string, string];
const [partitions, first, rate, ms] = process.argv.slice(4).map(Number) as [number, number, number, number];
const producer = new Kafka({ clientId: 'bench', brokers: [broker], logLevel: logLevel.NOTHING }).producer();
process.once('disconnect', () => process.exit(1));
await producer.connect();
process.send!('sending');
const start = performance.now();
let sent = 0;
for (let now = 0; now < ms; now = performance.now() - start) {
  // As many as are due by now: when one send takes long, the next makes up for it.
  const due = Math.min(Math.floor((now * rate) / 1_000), sent + RECORDS_A_SEND);
  const messages = Array.from({ length: due - sent }, (_, i) => payment(first + sent + i, partitions));
  sent = due;
  if (messages.length > 0) await producer.send({ topic, messages });
  const late = Math.floor(((performance.now() - start) * rate) / 1_000) - sent >= RECORDS_A_SEND;
  if (!late) await sleep(Math.max(0, EVERY_MS - (performance.now() - start - now)));
}
await producer.disconnect();
process.send!({ sent }, () => process.exit(0));
