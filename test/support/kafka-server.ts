import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { kafkaLibraries } from '../../scripts/kafka/programs.ts';
import { freePort } from '../../src/verify/servers/free-port.ts';
import { guard } from '../../src/verify/servers/guard.ts';
import { kafkaState } from './kafka-wire.ts';

/** A private Kafka: one process that is broker and controller, own data folder, on the loopback only. */
export interface KafkaServer {
  /** `host:port`, the same over restarts. */
  readonly brokers: string;
  /** `host:port` where only the users of `KafkaOptions.users` get in, by SASL PLAIN. */
  readonly guarded: string | undefined;
  /** Starts the server again after `shutdown` or `kill`; resolves when every partition has its leader. */
  start(): Promise<void>;
  /** Ends the server as a planned restart would. */
  shutdown(): Promise<void>;
  /** Ends the server without letting it say goodbye to anybody. */
  kill(): Promise<void>;
  /** Ends the server and deletes its data. */
  stop(): Promise<void>;
}

export interface KafkaOptions {
  /** A free one unless told otherwise. */
  readonly port?: number;
  /** More lines of `server.properties`, or others than ours. */
  readonly settings?: Readonly<Record<string, string | number | boolean>>;
  /** Passwords by name. Opens another listener for them; they may do what they are granted, and nothing else. */
  readonly users?: Readonly<Record<string, string>>;
}

const START_WITHIN_MS = 60_000;
const POLL_MS = 20;
const STACK_LINES = /^\s+(?:at |\.{3} ).*\n?/gm;

/** Makes and starts a server. Whatever happens to this process, the server ends and its folder is deleted. */
export async function startKafka(options: KafkaOptions = {}): Promise<KafkaServer> {
  const libraries = await kafkaLibraries();
  const folder = await mkdtemp(join(tmpdir(), 'nevertwice-kafka-'));
  guard().folder(folder);
  const port = options.port ?? (await freePort(32_000));
  const brokers = `127.0.0.1:${port}`;
  const controller = `127.0.0.1:${await freePort(32_000, port)}`;
  const guarded = options.users === undefined ? undefined : `127.0.0.1:${await freePort(32_000, port)}`;
  const settings = {
    ...defaults(brokers, controller, join(folder, 'data')),
    ...(guarded === undefined ? {} : guardedBy(options.users!, { brokers, controller, guarded })),
    ...options.settings,
  };
  const file = join(folder, 'server.properties');
  await writeFile(
    file,
    Object.entries(settings)
      .map(([name, value]) => `${name}=${value}\n`)
      .join(''),
  );

  const cluster = randomBytes(16).toString('base64url');
  let server: Java | undefined;
  const java = (...args: string[]) => startJava(libraries, folder, args);

  async function start(): Promise<void> {
    if (server !== undefined) throw new Error('the server is already running');
    const starting = java('kafka.Kafka', file);
    if (!(await answers(starting, brokers, cluster))) {
      await starting.end('SIGKILL');
      throw new Error(`Kafka did not start: ${starting.log()}`);
    }
    server = starting;
  }

  async function end(signal: NodeJS.Signals): Promise<void> {
    const ending = server;
    server = undefined;
    await ending?.end(signal);
  }

  async function stop(): Promise<void> {
    await end('SIGKILL');
    await rm(folder, { recursive: true, force: true });
  }

  try {
    const format = java('kafka.tools.StorageTool', 'format', `--cluster-id=${cluster}`, `--config=${file}`);
    if ((await format.exited) !== 0) throw new Error(`Kafka could not format its folder: ${format.log()}`);
    await start();
  } catch (error) {
    await stop();
    throw error;
  }
  return { brokers, guarded, start, shutdown: () => end('SIGTERM'), kill: () => end('SIGKILL'), stop };
}

/** A listener beside the open one, and rights that count. Whoever comes by the open one may do everything. */
function guardedBy(
  users: Readonly<Record<string, string>>,
  at: { readonly brokers: string; readonly controller: string; readonly guarded: string },
) {
  const known = Object.entries(users).map(([name, password]) => `user_${name}="${password}"`);
  return {
    listeners: `BROKER://${at.brokers},CONTROLLER://${at.controller},GUARDED://${at.guarded}`,
    'advertised.listeners': `BROKER://${at.brokers},GUARDED://${at.guarded}`,
    'listener.security.protocol.map': 'BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,GUARDED:SASL_PLAINTEXT',
    'sasl.enabled.mechanisms': 'PLAIN',
    'listener.name.guarded.plain.sasl.jaas.config': `org.apache.kafka.common.security.plain.PlainLoginModule required ${known.join(' ')};`,
    'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
    'super.users': 'User:ANONYMOUS',
  };
}

function defaults(broker: string, controller: string, data: string) {
  return {
    'process.roles': 'broker,controller',
    'node.id': 1,
    'controller.quorum.voters': `1@${controller}`,
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'BROKER',
    listeners: `BROKER://${broker},CONTROLLER://${controller}`,
    'advertised.listeners': `BROKER://${broker}`,
    'listener.security.protocol.map': 'BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT',
    'log.dirs': data,
    // A killed broker may come back only when the controller has given up its earlier life, which takes this long; but
    // a machine under load must not make it give up a broker that lives.
    'broker.session.timeout.ms': 3_000,
    'broker.heartbeat.interval.ms': 500,
    'auto.create.topics.enable': false,
    'log.retention.ms': -1,
    'group.initial.rebalance.delay.ms': 0,
    'group.min.session.timeout.ms': 1_000,
    // Members of a group whose broker assigns hear of a change with their next heartbeat; the default is five seconds.
    'group.consumer.min.heartbeat.interval.ms': 100,
    'group.consumer.heartbeat.interval.ms': 300,
    'offsets.topic.num.partitions': 4,
    'offsets.topic.replication.factor': 1,
    'transaction.state.log.num.partitions': 4,
    'transaction.state.log.replication.factor': 1,
    'transaction.state.log.min.isr': 1,
    'share.coordinator.state.topic.num.partitions': 4,
    'share.coordinator.state.topic.replication.factor': 1,
    'share.coordinator.state.topic.min.isr': 1,
    // The default is half of our heap.
    'log.cleaner.dedupe.buffer.size': 4 * 1024 * 1024,
  };
}

interface Java {
  /** With the exit code, or null after a signal. */
  readonly exited: Promise<number | null>;
  /** The end of what it said, without the lines of stacks, which would hide the reason. */
  log(): string;
  end(signal: NodeJS.Signals): Promise<void>;
}

/** Runs a class with the folder as the place for all that it writes. */
function startJava(libraries: string, folder: string, args: readonly string[]): Java {
  const flags = ['-Xms64m', '-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-XX:-UsePerfData'];
  const properties = [`-Djava.io.tmpdir=${folder}`, '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn'];
  const child: ChildProcess = spawn('java', [...flags, ...properties, '-cp', join(libraries, '*'), ...args], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  // A Java program answers SIGQUIT with a list of its threads, and lives on.
  if (child.pid !== undefined) guard().started(child.pid, 'SIGKILL');
  let text = '';
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
    text = (text + chunk).slice(-20_000);
  });
  const exited = new Promise<number | null>(done => {
    child.once('error', error => {
      text += error.message;
      done(null);
    });
    child.once('close', code => {
      if (child.pid !== undefined) guard().ended(child.pid);
      done(code);
    });
  });
  return {
    exited,
    log: () => text.replaceAll(STACK_LINES, '').trim(),
    async end(signal) {
      child.kill(signal);
      await exited;
    },
  };
}

/** True once the broker takes part and leads its partitions; false when it exits first or takes too long. */
async function answers(server: Java, broker: string, cluster: string): Promise<boolean> {
  const deadline = Date.now() + START_WITHIN_MS;
  let gone = false;
  const exited = server.exited.then(() => {
    gone = true;
  });
  while (!gone && Date.now() < deadline) {
    const state = await kafkaState(broker).catch(() => undefined);
    // An open port is not enough: a broker answers before the controller lets it lead anything.
    const leads = state !== undefined && state.brokers > 0 && ![...state.topics.values()].flat().includes(-1);
    // On a port that was taken, it is another broker that answers.
    if (leads && state.cluster === cluster) return true;
    await Promise.race([exited, sleep(POLL_MS)]);
  }
  return false;
}
