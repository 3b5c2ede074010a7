import { explainImport } from '../../cli/import-failure.ts';

/** Why a module could not be loaded, in one line. */
export async function whyBroken(error: unknown, url: string): Promise<string> {
  const { name = 'Error', message } = ((await explainImport(error, url)) ?? {}) as Partial<Error>;
  const line = String(message ?? error)
    .split('\n', 1)[0]!
    .slice(0, 500);
  return name === 'CommandError' ? line : `the module does not load: ${name}: ${line}`;
}
