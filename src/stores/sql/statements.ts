/** What a statement does to the transaction it runs in. */
export type StatementKind =
  | 'plain'
  /** BEGIN, COMMIT, ROLLBACK, …: would end our transaction, or commit effects without their claim. */
  | 'ends-transaction'
  | 'savepoint'
  | 'rollback-to'
  | 'release'
  | 'set-local'
  | 'cursor';

const ENDS: ReadonlySet<string> = new Set(['BEGIN', 'COMMIT', 'END', 'ABORT']);
const CURSORS: ReadonlySet<string> = new Set(['DECLARE', 'FETCH', 'MOVE']);

// A handler has few distinct texts; the bound only protects against text built per message.
const CACHE_LIMIT = 2_000;
const cache = new Map<string, readonly StatementKind[]>();

/** The kinds of all statements in `text`, which may hold several separated by semicolons. */
export function statementKinds(text: string): readonly StatementKind[] {
  const known = cache.get(text);
  if (known !== undefined) return known;
  const kinds = split(text).map(kindOf);
  if (cache.size >= CACHE_LIMIT) cache.clear();
  cache.set(text, kinds);
  return kinds;
}

function kindOf(statement: string): StatementKind {
  const words =
    statement
      .match(/[A-Za-z_]+/g)
      ?.slice(0, 4)
      .map(word => word.toUpperCase()) ?? [];
  const [first = '', second = ''] = words;
  if (ENDS.has(first)) return 'ends-transaction';
  if (first === 'START' && second === 'TRANSACTION') return 'ends-transaction';
  if (first === 'PREPARE' && second === 'TRANSACTION') return 'ends-transaction';
  if (first === 'ROLLBACK') return words.includes('TO') ? 'rollback-to' : 'ends-transaction';
  if (first === 'SAVEPOINT') return 'savepoint';
  if (first === 'RELEASE') return 'release';
  if (first === 'SET' && (second === 'LOCAL' || second === 'TRANSACTION' || second === 'CONSTRAINTS'))
    return 'set-local';
  if (CURSORS.has(first)) return 'cursor';
  return 'plain';
}

/** Splits at top-level semicolons and drops comments and literals, so that only keywords are left to look at. */
function split(text: string): string[] {
  const statements: string[] = [];
  let current = '';
  let i = 0;
  while (i < text.length) {
    const skipped = skipQuotedOrComment(text, i);
    if (skipped > i) {
      current += ' ';
      i = skipped;
    } else if (text[i] === ';' && !inBody(current)) {
      statements.push(current);
      current = '';
      i++;
    } else {
      current += text[i++];
    }
  }
  statements.push(current);
  return statements.filter(statement => statement.trim() !== '');
}

const HAS_BODY =
  /^\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMP\s+|TEMPORARY\s+)?(?:FUNCTION|PROCEDURE|(TRIGGER)\s+(?:IF\s+NOT\s+EXISTS\s+)?\S+)/i;

/** True inside a body of statements: SQLite's CREATE TRIGGER … BEGIN …; END, PostgreSQL's CREATE FUNCTION … BEGIN ATOMIC. */
function inBody(statement: string): boolean {
  const head = HAS_BODY.exec(statement);
  if (head === null) return false;
  const rest = statement.slice(head[0].length);
  const begin = rest.search(head[1] === undefined ? /\bBEGIN\s+ATOMIC\b/i : /\bBEGIN\b/i);
  if (begin === -1) return false;
  const words = rest.slice(begin).match(/\b(?:BEGIN|CASE|END)\b/gi) ?? [];
  return words.reduce((depth, word) => depth + (word.toUpperCase() === 'END' ? -1 : 1), 0) > 0;
}

/** The index after the literal, quoted name or comment that starts at `i`; `i` itself when none starts there. */
function skipQuotedOrComment(text: string, i: number): number {
  const two = text.slice(i, i + 2);
  if (two === '--') return endAfter(text, '\n', i + 2);
  if (two === '/*') return endOfBlockComment(text, i);
  const c = text[i];
  if (c === "'" && /[eE]/.test(text[i - 1] ?? '') && !IN_NAME.test(text[i - 2] ?? ''))
    return endOfEscapeString(text, i + 1);
  if (c === "'" || c === '"' || c === '`') return endAfter(text, c, i + 1);
  if (c === '$' && !IN_NAME.test(text[i - 1] ?? '')) {
    DOLLAR_TAG.lastIndex = i;
    const tag = DOLLAR_TAG.exec(text)?.[0];
    if (tag !== undefined) return endAfter(text, tag, i + tag.length);
  }
  return i;
}

// Names and tags may hold any letter beyond ASCII; names also hold dollars, so `a$b$c` opens nothing.
const IN_NAME = /[\w$\u0080-\uffff]/;
const DOLLAR_TAG = /\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$/y;

function endAfter(text: string, end: string, from: number): number {
  const at = text.indexOf(end, from);
  return at === -1 ? text.length : at + end.length;
}

function endOfEscapeString(text: string, from: number): number {
  for (let i = from; i < text.length; i++) {
    if (text[i] === '\\') i++;
    else if (text[i] === "'") return i + 1;
  }
  return text.length;
}

// PostgreSQL nests block comments; a comment that closed early would hide a COMMIT behind it.
function endOfBlockComment(text: string, from: number): number {
  let depth = 0;
  for (let i = from; i < text.length; i++) {
    const two = text.slice(i, i + 2);
    if (two === '/*') {
      depth++;
      i++;
    } else if (two === '*/') {
      depth--;
      i++;
      if (depth === 0) return i + 1;
    }
  }
  return text.length;
}

/** The start of a statement for an error line: literals and numbers masked, at most 60 characters. */
export function statementSummary(text: string): string {
  const masked = text
    .replace(/'(?:[^']|'')*'/g, "'…'")
    .replace(/(?<![\w$])\d+(?:\.\d+)?/g, '…')
    .replace(/\s+/g, ' ')
    .trim();
  return masked.length <= 60 ? masked : `${masked.slice(0, 59)}…`;
}

/** The name in SAVEPOINT and ROLLBACK TO, folded like the server folds it; the last one of several. */
export function savepointName(text: string): string {
  const names = [...text.matchAll(/\b(?:SAVEPOINT|TO)\s+(?:SAVEPOINT\s+)?("(?:[^"]|"")*"|`[^`]*`|\w+)/gi)];
  const name = names.at(-1)?.[1] ?? '';
  return name.startsWith('"') || name.startsWith('`') ? name.slice(1, -1) : name.toLowerCase();
}
