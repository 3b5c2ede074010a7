import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * The environment of a process that loads the user's module. From its very start it keeps compiled code in the temporary
 * folder, as the command line does: half of the time of a start goes into compiling the same again.
 */
export function childEnv(more: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const { NODE_COMPILE_CACHE = join(tmpdir(), 'node-compile-cache') } = process.env;
  return { ...process.env, NODE_OPTIONS: '', NODE_COMPILE_CACHE, ...more };
}
