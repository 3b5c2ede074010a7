import { join } from 'node:path';
import { type MemoryBroker, memoryBroker } from '../../sources/memory/index.ts';
import { PARTITIONS, type Round, type Schedule } from './schedule.ts';
import { createWallet, readWallet } from './wallet.ts';
import { startWorker, type Worker } from './worker.ts';

/** How a service is doing; live while it runs. */
export interface Standing {
  readonly service: string;
  /** Rounds of the schedule that are over, each with a kill. */
  kills: number;
  /** Payments handed out, copies included. */
  deliveries: number;
  finished: boolean;
}

/** What became of the wallet of one service. */
export interface Outcome {
  readonly service: string;
  readonly expectedCents: number;
  readonly actualCents: number;
  /** Customers whose balance is not what it must be. */
  readonly wrongBalances: number;
  /** Payments credited more than once, and not at all. */
  readonly doubled: number;
  readonly lost: number;
  readonly kills: number;
  readonly deliveries: number;
}

export interface TrialOptions {
  readonly schedule: Schedule;
  /** Empty at the start; deleted by the caller. */
  readonly folder: string;
  readonly signal: AbortSignal;
}

const GROUP = 'wallet';
/** A round takes a fraction of a second; one that takes this long will not end. */
const LONGEST_ROUND_MS = 60_000;

/** Puts one service through the schedule, on a broker and a database of its own. */
export async function trial(standing: Standing, options: TrialOptions): Promise<Outcome> {
  const { schedule, folder } = options;
  const file = join(folder, `${standing.service}.db`);
  createWallet(file);
  const broker = memoryBroker({ partitions: PARTITIONS, topic: 'payments' });
  const failed = new AbortController();
  const signal = AbortSignal.any([options.signal, failed.signal]);
  let onSettled = (_: number): void => undefined;

  const start = (fuse: Round['fuse'] | undefined): Worker =>
    startWorker({
      service: standing.service,
      file,
      fuse,
      source: broker.source({ group: GROUP }),
      traffic: {
        onReceived: deliveries => {
          standing.deliveries += deliveries.length;
        },
        onSettled: count => onSettled(count),
      },
      cache: join(folder, 'cache'),
      signal,
    });

  async function play(round: Round): Promise<void> {
    signal.throwIfAborted();
    send(broker, round);
    onSettled = rebalancing(broker, round.rebalanceAfter);
    const workers = Array.from({ length: round.workers }, () => start(round.fuse));
    await Promise.race(workers.map(worker => worker.ended));
    for (const worker of workers) worker.kill();
    await Promise.all(workers.map(worker => worker.ended));
    standing.kills += 1;
  }

  async function finish(): Promise<void> {
    signal.throwIfAborted();
    broker.loseAcks(0);
    onSettled = () => undefined;
    const worker = start(undefined);
    await Promise.race([broker.drained(GROUP), worker.ended]);
    worker.stop();
    await worker.ended;
  }

  try {
    for (const round of schedule.rounds) await within(LONGEST_ROUND_MS, play(round));
    await within(LONGEST_ROUND_MS, finish());
  } finally {
    failed.abort();
  }
  options.signal.throwIfAborted();
  standing.finished = true;
  return {
    ...compare(schedule, file),
    service: standing.service,
    kills: standing.kills,
    deliveries: standing.deliveries,
  };
}

function send(broker: MemoryBroker, round: Round): void {
  for (const [i, payment] of round.payments.entries()) {
    // In turn and not by key, so that every partition has enough for a fuse to burn down.
    broker.send({ id: payment.id, key: payment.customer, partition: i % PARTITIONS, body: payment });
  }
  for (const id of round.resent) broker.redeliver(id, { as: 'resend' });
  for (const id of round.redelivered) broker.redeliver(id);
  broker.loseAcks(round.lostAcks);
}

/** Once, after this many acknowledgements: what is in work then is handed out to somebody else as well. */
function rebalancing(broker: MemoryBroker, after: number): (count: number) => void {
  let settled = 0;
  return count => {
    const before = settled;
    settled += count;
    if (before < after && settled >= after) broker.rebalance();
  };
}

function compare({ payments }: Schedule, file: string) {
  const { wallet, credits } = readWallet(file);
  const expected = new Map<string, number>();
  for (const { customer, cents } of payments) expected.set(customer, (expected.get(customer) ?? 0) + cents);
  const times = payments.map(({ id }) => credits.get(id) ?? 0);
  return {
    expectedCents: sum(expected.values()),
    actualCents: sum(wallet.values()),
    wrongBalances: [...expected].filter(([customer, cents]) => wallet.get(customer) !== cents).length,
    doubled: times.filter(n => n > 1).length,
    lost: times.filter(n => n === 0).length,
  };
}

function sum(numbers: Iterable<number>): number {
  return [...numbers].reduce((total, n) => total + n, 0);
}

async function within<R>(ms: number, work: Promise<R>): Promise<R> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`a round took longer than ${ms / 1_000} s`)), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
