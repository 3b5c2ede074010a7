// `npm run clean`: deletes what builds and tests leave behind. `build` calls it for `dist` alone.
import { globSync, rmSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');
const all = ['dist', 'coverage', '.cache', ...globSync('*.tgz', { cwd: root })];
for (const path of process.argv.includes('dist') ? ['dist'] : all) {
  rmSync(join(root, path), { recursive: true, force: true });
}
