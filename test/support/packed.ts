import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pack } from '../../scripts/pack.ts';
import { guard } from '../../src/verify/servers/guard.ts';

let made: Promise<string> | undefined;

/**
 * A folder in which the package is installed as a user has it: `node_modules/nevertwice`, and the program
 * `node_modules/.bin/nevertwice`. Shared by all test files: write elsewhere. `npm test` packs once and hands it over;
 * a test file that is run alone packs for itself, in about two seconds.
 */
export function packedApp(): Promise<string> {
  made ??= process.env.NEVERTWICE_PACKED === undefined ? build() : Promise.resolve(process.env.NEVERTWICE_PACKED);
  return made;
}

async function build(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'nevertwice-packed-'));
  guard().folder(folder);
  return (await pack(folder)).app;
}
