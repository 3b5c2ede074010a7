import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { CommandError } from './command-error.ts';
import { shortPath, userFrame } from './user-frame.ts';

/**
 * What is wrong with a module that could not be loaded, in one line. An error that the module's own code threw while it
 * was loading comes back as it is.
 *
 * @param loading URL of the file that was loaded last
 */
export async function explainImport(error: unknown, loading: string): Promise<unknown> {
  const { code, message = '' } = (error ?? {}) as NodeJS.ErrnoException;
  const mistake = (text: string) => new CommandError(text, { cause: error });
  switch (code) {
    case 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX':
      return mistake(`${placeIn(error)}: ${message}; Node.js only strips types, so compile the module and run the result`);
    case 'ERR_INVALID_TYPESCRIPT_SYNTAX':
      return mistake(`${placeIn(error)}: syntax error: ${message.split('\n', 1)[0]}`);
    case 'ERR_MODULE_NOT_FOUND':
    case 'MODULE_NOT_FOUND':
    case 'ERR_PACKAGE_PATH_NOT_EXPORTED':
    case 'ERR_UNSUPPORTED_DIR_IMPORT':
      return mistake(notFound(message.split('\n', 1)[0] as string));
    case 'ERR_UNKNOWN_FILE_EXTENSION':
      return mistake(`${shortPath(localPath(loading))} is no module that Node.js can load; name a .ts, .mts, .js, .mjs or .cjs file`);
    case 'ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING':
      return mistake(`${shortPath(localPath(loading))} is TypeScript below node_modules, where Node.js strips no types; compile that package`);
  }
  if (!(error instanceof SyntaxError) || userFrame(error) !== undefined) return error;
  const place = placeIn(error) ?? (await placeOf(loading));
  if (place === undefined) return error;
  if (await isDecorator(place)) {
    return mistake(
      `${shown(place)}: decorators are not JavaScript yet and more than types to strip, so they need compiling first; compile the module and run the result`,
    );
  }
  return mistake(`${shown(place)}: syntax error: ${message}`);
}
