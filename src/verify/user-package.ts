import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** A package from the first of these folders that has it; undefined where none has. */
export async function importFrom(
  name: string,
  folders: readonly string[],
): Promise<Record<string, unknown> | undefined> {
  for (const folder of folders) {
    const found = resolveFrom(name, folder);
    if (found === undefined) continue;
    const module = (await import(pathToFileURL(found).href)) as { default?: Record<string, unknown> };
    return module.default ?? (module as Record<string, unknown>);
  }
  return undefined;
}

function resolveFrom(name: string, folder: string): string | undefined {
  try {
    return createRequire(join(folder, 'from-here.js')).resolve(name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'MODULE_NOT_FOUND') return undefined;
    throw error;
  }
}
