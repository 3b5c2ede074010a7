import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Kafka } from 'kafkajs';

export interface LoadAtRate {
  readonly broker: string;
  readonly topic: string;
  readonly partitions: number;
  /** The number of the first payment. */
  readonly first: number;
  /** Records a second. */
  readonly rate: number;
  readonly ms: number;
}

export interface Lags {
  readonly sent: number;
  /** In messages. */
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

const PRODUCER = fileURLToPath(new URL('scale-producer.ts', import.meta.url));
const SAMPLE_EVERY_MS = 50;

/** What a group leaves uncommitted while another process sends at a steady rate. */
export async function lagUnder(load: LoadAtRate, kafka: Kafka, groupId: string): Promise<Lags> {
  const { broker, topic, partitions, first, rate, ms } = load;
  const producer = fork(PRODUCER, [broker, topic, partitions, first, rate, ms].map(String), {
    execArgv: ['--disable-warning=TimeoutNegativeWarning'],
  });
  const exited = once(producer, 'exit');
  let sent: number | undefined;
  const sending = Promise.withResolvers<void>();
  producer.on('message', (message: 'sending' | { sent: number }) => {
    if (message === 'sending') sending.resolve();
    else sent = message.sent;
  });
  const admin = kafka.admin();
  await admin.connect();
  try {
    await Promise.race([sending.promise, exited]);
    let over = false;
    void exited.then(() => {
      over = true;
    });
    const lags: number[] = [];
    while (!over) {
      const start = performance.now();
      lags.push(await lagOf(admin, topic, groupId));
      await sleep(Math.max(0, SAMPLE_EVERY_MS - (performance.now() - start)));
    }
    if (sent === undefined) throw new Error('the producer ended without a word');
    const sorted = lags.toSorted((a, b) => a - b);
    const quantile = (q: number) => sorted[Math.floor(q * (sorted.length - 1))]!;
    return { sent, p50: quantile(0.5), p99: quantile(0.99), max: quantile(1) };
  } finally {
    producer.kill('SIGKILL');
    await admin.disconnect();
  }
}

/** As the broker has it, so that it holds what no client has fetched yet, and what is settled and not yet committed. */
async function lagOf(admin: ReturnType<Kafka['admin']>, topic: string, groupId: string): Promise<number> {
  const [ends, [committed]] = await Promise.all([
    admin.fetchTopicOffsets(topic),
    admin.fetchOffsets({ groupId, topics: [topic] }),
  ]);
  const done = new Map(committed!.partitions.map(({ partition, offset }) => [partition, Math.max(0, Number(offset))]));
  // The end may be the answer from a moment before.
  return ends.reduce((sum, { partition, high }) => sum + Math.max(0, Number(high) - (done.get(partition) ?? 0)), 0);
}
