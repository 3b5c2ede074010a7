import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** The broker's version, the same as in compose.yaml. */
export const KAFKA_VERSION = '4.1.2';

/** The oldest that this broker runs on. */
const JAVA_VERSION = 17;

const root = fileURLToPath(new URL('../../', import.meta.url));
const libraries = join(root, '.cache', `kafka-${KAFKA_VERSION}`);

/** Why Kafka cannot be started here, in words that help; undefined when it can. */
export async function kafkaMissing(): Promise<string | undefined> {
  const java = await run('java', ['-version']).catch(() => undefined);
  if (java === undefined) return `there is no java: install a runtime of Java ${JAVA_VERSION} or newer`;
  const [, found] = /version "(\d+)/.exec(java.stderr) ?? [];
  if (Number(found) < JAVA_VERSION) return `java is of version ${found}: install ${JAVA_VERSION} or newer`;
  if (await exists(libraries)) return undefined;
  const maven = await run('mvn', ['-v']).catch(() => undefined);
  return maven === undefined ? 'there is no mvn to fetch Kafka with: install maven' : undefined;
}

/** The folder with the broker's jar files; Maven fetches them at the first call. */
export async function kafkaLibraries(): Promise<string> {
  if (await exists(libraries)) return libraries;
  await mkdir(join(root, '.cache'), { recursive: true });
  // Into a folder of its own and then renamed: half a download is never taken for all of it.
  const partial = await mkdtemp(join(root, '.cache', 'kafka-'));
  try {
    await run(
      'mvn',
      [
        '--batch-mode',
        '--quiet',
        `--file=${fileURLToPath(new URL('pom.xml', import.meta.url))}`,
        `-Dkafka.version=${KAFKA_VERSION}`,
        'dependency:copy-dependencies',
        `-DoutputDirectory=${partial}`,
      ],
      { maxBuffer: 64 * 1024 * 1024 },
    );
    await rename(partial, libraries);
  } catch (error) {
    await rm(partial, { recursive: true, force: true });
    // Another process may have been faster.
    if (!(await exists(libraries))) throw new Error(`Maven could not fetch Kafka: ${said(error)}`, { cause: error });
  }
  return libraries;
}

/** Maven complains on its standard output. */
function said(error: unknown): string {
  const { stdout = '', stderr = '', message } = error as Error & { stdout?: string; stderr?: string };
  return `${stdout}${stderr}`.trim().slice(-4_000) || message;
}

function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
