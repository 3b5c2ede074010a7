import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { brokers, startKafka } from './support/kafka.ts';
import { askKafka, kafkaState } from './support/kafka-wire.ts';
import { until } from './support/until.ts';

// As support.test.ts: the ground that the suites of Kafka stand on.

// Two processes of Java and up to two restarts, on a machine that runs other suites meanwhile.
const options = { timeout: 120_000 };
const refused = { code: 'ECONNREFUSED' };

test('the shared broker takes part in its cluster', async () => {
  expect(await kafkaState(brokers())).toMatchObject({ brokers: 1 });
});

test('a broker that was killed or shut down comes back with its topics', options, async () => {
  const server = await startKafka();
  try {
    await createTopic(server.brokers, 'orders', 3);
    for (const end of [server.kill, server.shutdown]) {
      await end();
      await expect(kafkaState(server.brokers)).rejects.toMatchObject(refused);
      await server.start();
      expect((await kafkaState(server.brokers)).topics).toEqual(new Map([['orders', [1, 1, 1]]]));
    }
    await expect(server.start()).rejects.toThrow('already running');
  } finally {
    await server.stop();
  }
});

test('a port that another broker has is an error with the reason, and leaves no folder', options, async () => {
  const port = Number(brokers().split(':')[1]);
  const before = await foldersOf(port);
  await expect(startKafka({ port })).rejects.toThrow(/Address already in use/);
  expect(await foldersOf(port)).toEqual(before);
});

test('a test process that is killed leaves no broker and no folder behind', options, async () => {
  const module = fileURLToPath(new URL('./support/kafka-server.ts', import.meta.url));
  const code = `
    import { startKafka } from ${JSON.stringify(module)};
    console.log((await startKafka()).brokers);
    setInterval(() => {}, 1_000);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [broker] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  const [folder] = await foldersOf(Number(broker.split(':')[1]));
  expect(folder).toBeDefined();
  child.kill('SIGKILL');
  await until('the folder is gone', () => !existsSync(folder!));
  // A dying process still has its port for a moment.
  await until('the port is closed', () =>
    kafkaState(broker).then(
      () => false,
      (error: NodeJS.ErrnoException) => error.code === refused.code,
    ),
  );
});

async function createTopic(broker: string, name: string, partitions: number): Promise<void> {
  const topic = Buffer.concat([int16(name.length), Buffer.from(name), int32(partitions), int16(1), int32(0), int32(0)]);
  const checkOnly = Buffer.from([0]);
  const answer = await askKafka(broker, 19, 2, Buffer.concat([int32(1), topic, int32(10_000), checkOnly]));
  const throttleAndCount = 8;
  expect(answer.readInt16BE(throttleAndCount + 2 + name.length)).toBe(0);
}

function int16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeInt16BE(value);
  return bytes;
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

/** The folders of brokers of a port, wherever they were started. */
async function foldersOf(port: number): Promise<string[]> {
  const folders: string[] = [];
  for (const name of await readdir(tmpdir())) {
    if (!name.startsWith('nevertwice-kafka-')) continue;
    const folder = join(tmpdir(), name);
    const settings = await readFile(join(folder, 'server.properties'), 'utf8').catch(() => '');
    if (settings.includes(`advertised.listeners=BROKER://127.0.0.1:${port}\n`)) folders.push(folder);
  }
  return folders;
}
