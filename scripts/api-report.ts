import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript59';
import { readManifest } from './pack.ts';
import { root, Wrong } from './run.ts';

/** What one subpath export offers, as text that shows every change that a user's compiler would see. */
export interface ApiReport {
  /** `etc/postgres.api.md`, relative to the repository. */
  readonly file: string;
  readonly text: string;
}

/** The reports of an installed package, one for each subpath export. */
export function apiReports(installed: string): ApiReport[] {
  const entries = Object.entries(readManifest(installed).exports).flatMap(([subpath, target]) =>
    typeof target === 'string' ? [] : [{ subpath, types: join(installed, target.types) }],
  );
  for (const { subpath, types } of entries) {
    if (!existsSync(types)) throw new Wrong(`the export '${subpath}' has no declarations: its source file is missing`);
  }
  const options: ts.CompilerOptions = {
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    target: ts.ScriptTarget.ES2024,
    typeRoots: [join(root, 'node_modules/@types')],
    types: ['node'],
  };
  const files = entries.map(entry => entry.types);
  const program = ts.createProgram(files, options);
  const describe = describer(program, installed);
  const main = describe.exports(join(installed, 'dist/index.d.ts'));
  return entries.map(({ subpath, types }) => {
    const name = subpath === '.' ? 'nevertwice' : `nevertwice/${subpath.slice(2)}`;
    const own = describe.exports(types);
    const known = subpath === '.' ? new Set<ts.Symbol>() : new Set(main.values());
    const reachable = describe.reachable([...own.values()], new Set([...own.values(), ...known]));
    const sections = [...own].map(([exported, symbol]) => describe.text(symbol, exported));
    if (reachable.length > 0) sections.push('// Not exported, but part of what is:');
    sections.push(...reachable.map(symbol => describe.text(symbol, undefined)));
    const text = `# ${name}\n\nMade by \`npm run api:update\`. What changes here, changes for users.\n\n`;
    const file = `etc/${subpath === '.' ? 'nevertwice' : subpath.slice(2).replaceAll('/', '-')}.api.md`;
    return { file, text: `${text}\`\`\`ts\n${sections.join('\n\n')}\n\`\`\`\n` };
  });
}

/** Throws with the lines that differ when the report in the repository says something else. */
export function compareReport(report: ApiReport): void {
  const path = join(root, report.file);
  const committed = existsSync(path) ? readFileSync(path, 'utf8') : '';
  if (committed === report.text) return;
  const [before, after] = [committed.split('\n'), report.text.split('\n')];
  const gone = linesOnlyIn(before, after).map(line => `- ${line}`);
  const added = linesOnlyIn(after, before).map(line => `+ ${line}`);
  const shown = [...gone, ...added].slice(0, 40);
  const more = gone.length + added.length - shown.length;
  if (more > 0) shown.push(`… and ${more} lines more`);
  const advice = 'If this is meant, run `npm run api:update`, commit the report, and tell users in CHANGELOG.md.';
  throw new Wrong(committed === '' ? `${report.file} is missing. ${advice}` : `${shown.join('\n')}\n${advice}`);
}

/** The lines of `one` that `other` does not have, or has fewer times. */
function linesOnlyIn(one: readonly string[], other: readonly string[]): string[] {
  const left = new Map<string, number>();
  for (const line of other) left.set(line, (left.get(line) ?? 0) + 1);
  return one.filter(line => {
    const times = left.get(line) ?? 0;
    left.set(line, times - 1);
    return times <= 0;
  });
}

export function writeReport(report: ApiReport): void {
  mkdirSync(join(root, 'etc'), { recursive: true });
  writeFileSync(join(root, report.file), report.text);
}

function describer(program: ts.Program, installed: string) {
  const checker = program.getTypeChecker();
  const printer = ts.createPrinter({ removeComments: true, newLine: ts.NewLineKind.LineFeed });

  const target = (symbol: ts.Symbol): ts.Symbol =>
    symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;

  /** The statements that declare a symbol in this package; none for members, type parameters and other packages. */
  function statements(symbol: ts.Symbol): ts.Statement[] {
    return (symbol.declarations ?? []).flatMap(declaration => {
      if (!declaration.getSourceFile().fileName.startsWith(installed.replaceAll('\\', '/'))) return [];
      const node = ts.isVariableDeclaration(declaration) ? declaration.parent.parent : declaration;
      return ts.isSourceFile(node.parent) && ts.isStatement(node) ? [node] : [];
    });
  }

  return {
    /** Exported names in alphabetical order, each with the symbol that it stands for. */
    exports(file: string): Map<string, ts.Symbol> {
      const source = program.getSourceFile(file);
      const module = source && checker.getSymbolAtLocation(source);
      if (module === undefined) throw new Wrong(`${file} exports nothing`);
      const found = checker.getExportsOfModule(module).map(symbol => [symbol.name, target(symbol)] as const);
      return new Map(found.sort(([a], [b]) => (a < b ? -1 : 1)));
    },

    /** What the declarations of `from` mention, and what that mentions, without what is `known`, by name. */
    reachable(from: readonly ts.Symbol[], known: ReadonlySet<ts.Symbol>): ts.Symbol[] {
      const found = new Set<ts.Symbol>();
      const visit = (node: ts.Node): void => {
        const mentioned = ts.isIdentifier(node) ? checker.getSymbolAtLocation(node) : undefined;
        const symbol = mentioned && target(mentioned);
        if (symbol && !known.has(symbol) && !found.has(symbol) && statements(symbol).length > 0) {
          found.add(symbol);
          statements(symbol).forEach(visit);
        }
        ts.forEachChild(node, visit);
      };
      for (const symbol of from) statements(symbol).forEach(visit);
      return [...found].sort((a, b) => (a.name < b.name ? -1 : 1));
    },

    text(symbol: ts.Symbol, exported: string | undefined): string {
      const nodes = statements(symbol);
      if (nodes.length === 0) return `export { ${exported} }; // from elsewhere`;
      const prefix = exported === undefined ? '' : 'export ';
      const lines = nodes.map(node => {
        const text = printer.printNode(ts.EmitHint.Unspecified, node, node.getSourceFile());
        return prefix + text.replace(/^(?:export |default |declare )+/, '');
      });
      if (exported !== undefined && exported !== symbol.name) lines.unshift(`// exported as ${exported}`);
      return lines.join('\n');
    },
  };
}
