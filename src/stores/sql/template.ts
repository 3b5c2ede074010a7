import { createHash } from 'node:crypto';
import { NevertwiceError } from '../../errors.ts';

export interface TemplateText {
  readonly text: string;
  /** The same for the same text in every process, so that a server can keep the statement prepared. */
  readonly name: string;
}

// A tagged template's strings array is the same object at each run of the same source line.
const numbered = new WeakMap<TemplateStringsArray, TemplateText>();
const positional = new WeakMap<TemplateStringsArray, TemplateText>();

/** The statement text of a tagged template: `$1` placeholders for PostgreSQL, `?` for SQLite. */
export function templateText(strings: TemplateStringsArray, style: 'numbered' | 'positional'): TemplateText {
  const cache = style === 'numbered' ? numbered : positional;
  const known = cache.get(strings);
  if (known !== undefined) return known;
  if (!Array.isArray(strings)) {
    throw new NevertwiceError(
      'NT_CONFIG',
      'sql is a template tag: write sql`…` and not sql(…), so that values stay values',
    );
  }
  const text = strings.reduce((sum, part, i) => sum + (style === 'numbered' ? `$${i}` : '?') + part);
  const made = { text, name: statementName(text) };
  cache.set(strings, made);
  return made;
}

export function statementName(text: string): string {
  return `nt_${createHash('sha256').update(text).digest('hex').slice(0, 24)}`;
}

/** A forgotten value would silently become NULL; refuse it and say which one it was. */
export function refuseUndefined(values: readonly unknown[], text: string): void {
  const at = values.indexOf(undefined);
  if (at !== -1) {
    throw new NevertwiceError(
      'NT_CONFIG',
      `sql: value ${at + 1} of "${text.slice(0, 60)}" is undefined; pass null to mean NULL`,
    );
  }
}
