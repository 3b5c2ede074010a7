// `npm run clean`: deletes what builds and tests leave behind. Nothing that git knows.
import { globSync, rmSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');
for (const path of ['dist', 'coverage', '.cache', ...globSync('*.tgz', { cwd: root })]) {
  rmSync(join(root, path), { recursive: true, force: true });
}
