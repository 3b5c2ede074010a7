/** Quoted text, names and comments, in which nothing means anything. */
const QUOTED = /'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|\/\*[\s\S]*?\*\//.source;
const PARAMETER = new RegExp(`${QUOTED}|\\?(\\d*)|([:@$]\\w+)`, 'g');
const END = new RegExp(`${QUOTED}|;`, 'g');

/**
 * The statements of a text, each of which commits by itself where no transaction is open. A trigger has statements inside, and
 * such a text stays whole.
 */
export function statementsIn(sql: string): readonly string[] {
  if (/\btrigger\b/i.test(sql)) return [sql];
  const statements: string[] = [];
  let from = 0;
  for (const { 0: found, index } of sql.matchAll(END)) {
    if (found !== ';') continue;
    statements.push(sql.slice(from, index + 1));
    from = index + 1;
  }
  statements.push(sql.slice(from));
  return statements.filter(statement => verbOf(statement) !== '');
}

/** On one line, with the parameters in their places, as a person would type it. */
export function withParameters(sql: string, parameters: readonly unknown[]): string {
  const [first] = parameters;
  const named =
    typeof first === 'object' && first !== null && !ArrayBuffer.isView(first) ? (first as Record<string, unknown>) : {};
  const listed = parameters.slice(Object.keys(named).length > 0 ? 1 : 0);
  let next = 0;
  const text = sql.replace(PARAMETER, (all, number?: string, name?: string) => {
    if (name !== undefined) return literal(named[name] ?? named[name.slice(1)], all);
    if (number === undefined) return all.startsWith('--') || all.startsWith('/*') ? ' ' : all;
    if (number !== '') next = Number(number) - 1;
    return literal(listed[next++], all);
  });
  return text.replace(/\s+/g, ' ').trim().replace(/;$/, '');
}

function literal(value: unknown, otherwise: string): string {
  if (value === undefined) return otherwise;
  if (value === null) return 'NULL';
  if (typeof value === 'string') return `'${value.replaceAll("'", "''")}'`;
  if (ArrayBuffer.isView(value))
    return `x'${Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('hex')}'`;
  return String(value);
}

/** `INSERT`, `BEGIN` and so on; empty where there is no statement. */
export function verbOf(sql: string): string {
  const [, verb = ''] = /^(?:\s|;|--[^\n]*(?:\n|$)|\/\*[\s\S]*?\*\/)*([a-z]+)/i.exec(sql) ?? [];
  return verb.toUpperCase();
}

/** What takes no lock and commits nothing: nobody else can tell when it ran. */
export function isQuiet(sql: string): boolean {
  const verb = verbOf(sql);
  if (verb === 'BEGIN') return !/\b(?:immediate|exclusive)\b/i.test(sql);
  return verb === 'SAVEPOINT' || verb === 'PRAGMA';
}

const NAMES: Readonly<Record<number, string>> = {
  5: 'SQLITE_BUSY',
  6: 'SQLITE_LOCKED',
  19: 'SQLITE_CONSTRAINT',
  275: 'SQLITE_CONSTRAINT_CHECK',
  517: 'SQLITE_BUSY_SNAPSHOT',
  787: 'SQLITE_CONSTRAINT_FOREIGNKEY',
  1299: 'SQLITE_CONSTRAINT_NOTNULL',
  1555: 'SQLITE_CONSTRAINT_PRIMARYKEY',
  1811: 'SQLITE_CONSTRAINT_TRIGGER',
  2067: 'SQLITE_CONSTRAINT_UNIQUE',
};

/** As SQLite itself names it. */
export function errorText(error: unknown): string {
  const { errcode, message } = error as { errcode?: number; message?: string };
  const name = errcode === undefined ? 'SQLITE_ERROR' : (NAMES[errcode] ?? NAMES[errcode & 0xff] ?? 'SQLITE_ERROR');
  return `${name}: ${message ?? error}`;
}

export function isBusy(error: unknown): boolean {
  const { errcode } = Object(error) as { errcode?: number };
  return errcode !== undefined && (errcode & 0xff) === 5;
}
