import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
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
  const why = explained(code, message.split('\n', 1)[0] as string, error, loading);
  if (why !== undefined) return new CommandError(why, { cause: error });
  if (!(error instanceof SyntaxError) || userFrame(error) !== undefined) return error;

  const place = placeIn(error.stack ?? '') ?? (await placeInChild(loading));
  if (place === undefined) return error;
  return new CommandError(`${shown(place)}: ${inWords(error.message, place.file, await lineAt(place))}`, {
    cause: error,
  });
}

function inWords(message: string, file: string, line: string): string {
  if (/^\s*@/.test(line)) {
    return 'decorators are more than types to strip, so they need compiling first; compile the module and run the result';
  }
  if (/ts$/.test(file) && /^\s*(import|export)\b.*\bfrom\b/.test(line))
    return `${message}; if that is a type, write: import type`;
  return `syntax error: ${message}`;
}

function explained(code: string | undefined, text: string, error: unknown, loading: string): string | undefined {
  switch (code) {
    case 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX':
    case 'ERR_INVALID_TYPESCRIPT_SYNTAX': {
      const where = shown(placeIn((error as Error).stack ?? '') ?? { file: fileURLToPath(loading), line: undefined });
      if (code === 'ERR_INVALID_TYPESCRIPT_SYNTAX') return `${where}: syntax error: ${text}`;
      return `${where}: ${text}: Node.js strips types and compiles nothing; write it without, or compile the module and run the result`;
    }
    case 'ERR_MODULE_NOT_FOUND':
    case 'MODULE_NOT_FOUND':
      return `${text}; ${howToFind((error as { url?: string }).url)}`;
    case 'ERR_PACKAGE_PATH_NOT_EXPORTED':
    case 'ERR_UNSUPPORTED_DIR_IMPORT':
      return text;
    case 'ERR_UNKNOWN_FILE_EXTENSION':
      return `${text}; name a .ts, .mts, .js, .mjs or .cjs file`;
    case 'ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING':
      return `${text}; compile that package to JavaScript`;
  }
  return undefined;
}

/** @param url of the file that is not there; undefined when it is a package */
function howToFind(url: string | undefined): string {
  if (url === undefined) return 'install it with npm';
  const written = url.startsWith('file:') ? fileURLToPath(url).replace(/\.([cm]?)js$/, '.$1ts') : '';
  if (existsSync(written)) return `import it as it is on disk, ${shortPath(written)}: nothing renames .ts to .js here`;
  return 'import it by its full name, with its extension';
}

interface Place {
  readonly file: string;
  readonly line: number | undefined;
}

/** Node puts `file:///…:3` over the code it points at, in front of the error itself. */
function placeIn(text: string): Place | undefined {
  const [, where, line] = /^((?:file:\/\/|\/|[A-Za-z]:\\).+):(\d+)$/m.exec(text) ?? [];
  if (where === undefined) return undefined;
  return { file: where.startsWith('file:') ? fileURLToPath(where) : where, line: Number(line) };
}

/**
 * V8 keeps the place of a syntax error to itself unless the error ends the process. So a process is ended with it: the
 * file does not compile, so nothing of it runs there.
 */
function placeInChild(url: string): Promise<Place | undefined> {
  const program = ['--input-type=module', '--eval', 'await import(process.argv[1])', url];
  return new Promise(resolve => {
    execFile(process.execPath, program, { timeout: 10_000 }, (_, __, stderr) => resolve(placeIn(stderr)));
  });
}

async function lineAt({ file, line }: Place): Promise<string> {
  return (await readFile(file, 'utf8')).split(/\r?\n/)[(line ?? 0) - 1] ?? '';
}

function shown({ file, line }: Place): string {
  return line === undefined ? shortPath(file) : `${shortPath(file)}:${line}`;
}
