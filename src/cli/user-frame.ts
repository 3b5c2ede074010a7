import { relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The package's own code: `src/` in the repository, `dist/` where it is installed. */
const OWN = fileURLToPath(new URL('../', import.meta.url));

/**
 * The innermost line of a stack that lies in the user's own files, `at load (wallet.ts:5:21)`; undefined when there is
 * none. Installed packages do not count: it is the user's call into them that he can change.
 */
export function userFrame(error: unknown): string | undefined {
  if (!(error instanceof Error) || error.stack === undefined) return undefined;
  for (const line of error.stack.split('\n')) {
    const [, name, place] =
      /^ {4}at (?:async )?(?:(.+?) \()?((?:file:\/\/|\/|[A-Za-z]:\\)[^()]+:\d+:\d+)\)?$/.exec(line) ?? [];
    if (place === undefined) continue;
    const path = place.startsWith('file:') ? localPath(place) : place;
    if (path.startsWith(OWN) || path.includes(`${sep}node_modules${sep}`)) continue;
    return name === undefined ? `at ${shortPath(path)}` : `at ${name} (${shortPath(path)})`;
  }
  return undefined;
}

/** A path as a person would name it: relative where that is no detour. */
export function shortPath(path: string): string {
  const short = relative(process.cwd(), path);
  return short === '' || short.startsWith('..') ? path : short;
}

function localPath(place: string): string {
  const [, url = place, position = ''] = /^(.*?)((?::\d+){2})$/.exec(place) ?? [];
  return `${fileURLToPath(url)}${position}`;
}
