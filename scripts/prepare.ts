// Runs after `npm install` in this repository. better-sqlite3 ships its binaries and says so in its package.json
// ("gypfile": false), but npm 10 and older, when they install from the lock file, do not read that there and call
// node-gyp, which fails on a machine without Python and a compiler. They do read it in the lock file itself; but npm
// never writes it there. So this does. npm 11.16 and newer need it not: "allowScripts" denies the call.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const file = join(import.meta.dirname, '../package-lock.json');
const entry = 'node_modules/better-sqlite3';
if (existsSync(file)) {
  const text = readFileSync(file, 'utf8');
  const lock = JSON.parse(text) as { packages: Record<string, { gypfile?: boolean }> };
  const locked = lock.packages[entry];
  if (locked !== undefined) locked.gypfile = false;
  const fixed = `${JSON.stringify(lock, undefined, 2)}\n`;
  if (fixed !== text) writeFileSync(file, fixed);
}
