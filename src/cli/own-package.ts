import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';

const PACKAGE = new URL('../../', import.meta.url).href;
/** The codes of `import` and of `require`. */
const NOT_FOUND: ReadonlySet<string | undefined> = new Set(['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND']);
let resolving = false;

/**
 * Makes `import 'nevertwice'` in the user's modules find this very package where their own folder has none, as with
 * `npx`. Inside the package's own repository it always does: the sources that run must not meet what an older build
 * left in `dist/`.
 */
export function resolveOwnPackage(): void {
  if (resolving) return;
  resolving = true;
  const own = ownEntries();
  registerHooks({
    resolve(specifier, context, next) {
      const entry = own.get(specifier);
      if (entry === undefined) return next(specifier, context);
      const { parentURL } = context;
      const fromInside =
        parentURL?.startsWith(PACKAGE) === true && !parentURL.slice(PACKAGE.length).includes('node_modules/');
      if (fromInside) return { url: entry, shortCircuit: true };
      try {
        return next(specifier, context);
      } catch (error) {
        if (!NOT_FOUND.has((error as NodeJS.ErrnoException).code)) throw error;
        return { url: entry, shortCircuit: true };
      }
    },
  });
}

/** `nevertwice/sqlite` and so on, each with the file that it is here: built, or as it was written. */
function ownEntries(): ReadonlyMap<string, string> {
  const manifest = JSON.parse(readFileSync(new URL('package.json', PACKAGE), 'utf8')) as {
    readonly name: string;
    readonly exports: Readonly<Record<string, string | { readonly default: string }>>;
  };
  const unbuilt = import.meta.url.endsWith('.ts');
  return new Map(
    Object.entries(manifest.exports).map(([subpath, target]) => {
      const built = typeof target === 'string' ? target : target.default;
      const file = unbuilt ? built.replace(/^\.\/dist\/(.*)\.js$/, './src/$1.ts') : built;
      return [`${manifest.name}${subpath.slice(1)}`, new URL(file, PACKAGE).href];
    }),
  );
}
