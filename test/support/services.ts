import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { kafkaMissing } from '../../scripts/kafka/programs.ts';
import { postgresPrograms, startPostgres } from '../../src/verify/servers/postgres-server.ts';
import { redisMissing, startRedis } from '../../src/verify/servers/redis-server.ts';
import { startKafka } from './kafka-server.ts';

/** A server that some suites need and that one run of the tests shares. */
export interface Service {
  /** For people. */
  readonly name: string;
  /** Variable with the URL of a server (Kafka: `host:port`) to use instead of starting one. */
  readonly env: string;
  /** A test file needs the service when it imports this file of `test/support/`, itself or by way of another. */
  readonly support: string;
  /** Undefined when the service can be started here, or else why not, in words that help. Starts nothing. */
  missing(): Promise<string | undefined>;
  start(): Promise<{ readonly url: string; stop(): Promise<void> }>;
}

/** Every service of the test suites. A new one is a row here and its `test/support/<name>.ts`. */
export const services: readonly Service[] = [
  {
    name: 'PostgreSQL',
    env: 'NEVERTWICE_TEST_POSTGRES',
    support: 'postgres.ts',
    missing: async () =>
      (await postgresPrograms()) === undefined
        ? 'there are no programs of PostgreSQL for this platform: set NEVERTWICE_TEST_POSTGRES to the URL of a server'
        : undefined,
    start: startPostgres,
  },
  {
    name: 'Kafka',
    env: 'NEVERTWICE_TEST_KAFKA',
    support: 'kafka.ts',
    missing: kafkaMissing,
    start: async () => {
      // It is never killed, and must not be taken for dead by its own controller while the machine is busy.
      const { brokers, stop } = await startKafka({ settings: { 'broker.session.timeout.ms': 18_000 } });
      return { url: brokers, stop };
    },
  },
  {
    name: 'Redis',
    env: 'NEVERTWICE_TEST_REDIS',
    support: 'redis.ts',
    missing: redisMissing,
    start: startRedis,
  },
];

/** Test files that need the same services: the unit that is started together, or left out together. */
export interface SuiteGroup {
  /** `embedded`, or the services' names. */
  readonly name: string;
  readonly services: readonly Service[];
  /** Relative to the repository, with forward slashes. */
  readonly files: readonly string[];
}

const root = new URL('../../', import.meta.url);
const tests = new URL('test/', root);

/** All test files of the repository, grouped by the services that they import the support of. */
export function suiteGroups(): readonly SuiteGroup[] {
  const files = readdirSync(fileURLToPath(tests), { recursive: true, encoding: 'utf8' })
    .filter(file => file.endsWith('.test.ts'))
    .map(file => `test/${file.replaceAll('\\', '/')}`)
    .sort();
  const groups = Map.groupBy(files, file => {
    const imports = importsOf(new URL(file, root));
    return (
      services
        .filter(service => imports.has(new URL(`support/${service.support}`, tests).href))
        .map(service => service.name)
        .join(' + ') || 'embedded'
    );
  });
  return [...groups].map(([name, members]) => ({
    name,
    services: services.filter(service => name.split(' + ').includes(service.name)),
    files: members,
  }));
}

/** The files below `test/` that a file imports, also by way of another of them. */
function importsOf(file: URL, found = new Set<string>()): ReadonlySet<string> {
  // At the start of a line: a test of the module loader has imports in its strings.
  const imports = /^(?:import|export)\b[^;]*?from '(\.[^']*\.ts)'/gm;
  for (const [, path = ''] of readFileSync(file, 'utf8').matchAll(imports)) {
    const imported = new URL(path, file);
    if (found.has(imported.href) || !imported.href.startsWith(tests.href)) continue;
    found.add(imported.href);
    importsOf(imported, found);
  }
  return found;
}
