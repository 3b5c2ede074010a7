import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { serve } from '../../../src/cli/demo/bridge/broker-side.ts';
import { memoryBroker } from '../../../src/memory.ts';
import type { MemoryBroker } from '../../../src/sources/memory/index.ts';
import type { Random } from '../../support/random.ts';
import { endsWithin } from '../../support/until.ts';
import { faults } from './oracle.ts';
import type { Campaign, Job, Kill, Place } from './plan.ts';
import { PARTITIONS, Producer } from './producer.ts';

const CHILD = fileURLToPath(new URL('child.ts', import.meta.url));
const GROUP = 'wallet';
const DIES_WITHIN_MS = 60_000;
const DRAINS_WITHIN_MS = 60_000;

export interface Setting {
  /** A file or the URL of a database, empty at first. */
  readonly target: string;
  /** A folder in which the processes keep what they compiled. */
  readonly cache: string;
  readonly random: Random;
}

export interface Report {
  /** One line for each thing that is wrong at the end. */
  readonly faults: readonly string[];
  /** Messages that the broker still holds as unsettled. */
  readonly pending: number;
  /** Deaths by place, as the dying processes told them. */
  readonly deaths: ReadonlyMap<Place, number>;
  readonly messages: number;
  readonly copies: Producer['copies'];
  readonly deliveries: number;
}

/**
 * Plays one campaign: the broker and the producer live here, the consumers in processes of their own, each of which
 * dies where it is told to and is followed by the next one. The last ones drain the broker and end by themselves.
 */
export async function play(campaign: Campaign, { target, cache, random }: Setting): Promise<Report> {
  const broker = memoryBroker({ partitions: PARTITIONS, topic: 'payments' });
  const producer = new Producer(broker, random);
  const deaths = new Map<Place, number>();
  const children = new Set<ChildProcess>();
  let deliveries = 0;

  function start(kill: Kill | undefined): { child: ChildProcess; ended: Promise<Ended> } {
    const { kind, style } = campaign;
    const child = startChild({ kind, target, style, kill }, cache);
    children.add(child);
    serve(child, broker.source({ group: GROUP }), {
      onReceived: received => {
        deliveries += received.length;
      },
      onSettled: () => undefined,
    });
    return { child, ended: ending(child).finally(() => children.delete(child)) };
  }

  async function die(kill: Kill): Promise<void> {
    const what = `a death at ${kill.place}, arrival ${kill.nth}`;
    const { code, signal, stdout, stderr } = await endsWithin(DIES_WITHIN_MS, what, start(kill).ended);
    const told = stdout === '' ? undefined : (JSON.parse(stdout) as Kill);
    if (signal !== 'SIGKILL' || told === undefined) {
      throw new Error(`instead of ${what} the process ended with ${signal ?? code}:\n${stderr}`);
    }
    deaths.set(told.place, (deaths.get(told.place) ?? 0) + 1);
  }

  /** The places of one process, one after the other, and then a process that lives. */
  async function succession(kills: readonly Kill[]): Promise<ReturnType<typeof start>> {
    for (const kill of kills) await die(kill);
    return start(undefined);
  }

  const world = new AbortController();
  const messages = keepBusy(broker, producer, random, world.signal);
  try {
    const { processes, kills } = campaign;
    const parts = Array.from({ length: processes }, (_, p) => kills.filter((_, k) => k % processes === p));
    const last = await Promise.all(parts.map(succession));
    world.abort();
    await messages;
    // Whose ack was lost comes again, as it would when its time at the broker had run out.
    broker.loseAcks(0);
    broker.expire();
    const sick = Promise.race(last.map(({ ended }) => ended)).then(end => Promise.reject(unexpected(end)));
    sick.catch(() => undefined);
    await Promise.race([endsWithin(DRAINS_WITHIN_MS, 'everything is settled', broker.drained(GROUP)), sick]);
    for (const { child } of last) child.send({ op: 'stop' });
    for (const { ended } of last) {
      const end = await endsWithin(DRAINS_WITHIN_MS, 'a stopped process ends by itself', ended);
      if (end.code !== 0) throw unexpected(end);
    }
  } finally {
    world.abort();
    await messages;
    for (const child of children) child.kill('SIGKILL');
  }
  return {
    faults: await faults(campaign.kind, target, producer.sent),
    pending: broker.pending(GROUP),
    deaths,
    messages: producer.sent.size,
    copies: producer.copies,
    deliveries,
  };
}

/** New messages whenever few are left, and from time to time what a broker does to everybody's surprise. */
async function keepBusy(broker: MemoryBroker, producer: Producer, random: Random, over: AbortSignal): Promise<void> {
  while (!over.aborted) {
    if (broker.pending(GROUP) < 24) producer.send(8);
    if (random.chance(0.02)) broker.expire();
    if (random.chance(0.01)) broker.rebalance();
    if (random.chance(0.02)) broker.loseAcks(1 + random.below(8));
    await sleep(4);
  }
}

interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

function startChild(job: Job, cache: string): ChildProcess {
  return fork(CHILD, [JSON.stringify(job)], {
    serialization: 'advanced',
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    execArgv: [],
    // A thousand processes load the same modules: the cache spares each half a second of parsing.
    env: { ...process.env, NODE_COMPILE_CACHE: cache },
  });
}

async function ending(child: ChildProcess): Promise<Ended> {
  let [stdout, stderr] = ['', ''];
  child.stdout!.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  return { code, signal, stdout, stderr };
}

function unexpected({ code, signal, stderr }: Ended): Error {
  return new Error(`a process that should live ended with ${signal ?? code}:\n${stderr}`);
}
