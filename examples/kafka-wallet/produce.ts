// Sends 1,000 payments of 5 euros to 10 customers, and every tenth of them twice, as a producer does that did not hear
// the broker's answer. Makes the topic when it is not there.
import { Kafka, logLevel } from 'kafkajs';

const kafka = new Kafka({
  clientId: 'shop',
  brokers: [process.env.KAFKA ?? '127.0.0.1:9092'],
  logLevel: logLevel.ERROR,
});
const admin = kafka.admin();
const producer = kafka.producer();
await Promise.all([admin.connect(), producer.connect()]);
await admin.createTopics({ waitForLeaders: true, topics: [{ topic: 'payments', numPartitions: 4 }] });

const order = Date.now();
const payments = Array.from({ length: 1_000 }, (_, i) => ({
  key: `customer-${i % 10}`,
  value: JSON.stringify({ customer_id: `customer-${i % 10}`, amount_cents: 500 }),
  headers: { 'message-id': `order-${order}-${i}` },
}));
const sent = payments.flatMap((payment, i) => (i % 10 === 9 ? [payment, payment] : [payment]));
await producer.send({ topic: 'payments', messages: sent });
console.log(`sent ${sent.length} records, ${payments.length} different payments: 50000 cents for each of 10 customers`);
await Promise.all([admin.disconnect(), producer.disconnect()]);
