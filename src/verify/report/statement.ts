import type { Place } from '../gate.ts';

/** What a request does, as far as its text tells. */
export interface Statement {
  readonly kind: 'read' | 'write' | 'commit' | 'rollback' | 'call' | 'ack' | 'nack' | 'publish' | 'other';
  /** `INSERT`, `SET`, `POST`. */
  readonly verb: string;
  /** A table without `public`, a key of Redis, `http`, `published`. */
  readonly target: string;
  /** All that it writes to: one statement may hold several, and a statement that only reads has none. */
  readonly targets: readonly string[];
  /** `INSERT INTO processed`: short, for sentences. */
  readonly label: string;
  /** It says itself what happens when the row is there. */
  readonly tolerant: boolean;
  /** It brings the end of its transaction along. */
  readonly commits: boolean;
}

const REDIS_READS = new Set([
  'GET',
  'MGET',
  'EXISTS',
  'HGET',
  'HGETALL',
  'HEXISTS',
  'SISMEMBER',
  'SMEMBERS',
  'TTL',
  'PTTL',
  'TYPE',
  'ZSCORE',
  'ZRANGE',
  'LRANGE',
  'STRLEN',
  'SCAN',
]);

export function statementOf(place: Place, text: string): Statement {
  if (place === 'broker') return broker(text);
  if (place === 'http') return http(text);
  if (place === 'redis') return redis(text);
  return sql(text);
}

const PLAIN = { tolerant: false, commits: false } as const;

function broker(text: string): Statement {
  const [verb = ''] = text.split(/[\s(]/, 1);
  const kind =
    verb === 'ack' || verb === 'commit' ? 'ack' : verb === 'nack' ? 'nack' : verb === 'publish' ? 'publish' : 'other';
  return {
    kind,
    verb,
    target: kind === 'publish' ? 'published' : '',
    label: verb,
    targets: kind === 'publish' ? ['published'] : [],
    ...PLAIN,
  };
}

function http(text: string): Statement {
  const [verb = '', path = ''] = text.split(/\s+/, 2);
  const kind = /^(?:GET|HEAD|OPTIONS)$/i.test(verb) ? 'read' : 'write';
  return {
    kind,
    verb: verb.toUpperCase(),
    target: 'http',
    targets: kind === 'write' ? ['http'] : [],
    label: `${verb} ${path}`.trim(),
    ...PLAIN,
  };
}

function redis(text: string): Statement {
  const [verb = '', ...words] = text.split(/\s+/);
  const name = verb.toUpperCase();
  // EVAL digest 1 key …
  const key = words[name.startsWith('EVAL') ? 2 : 0] ?? '';
  const kind = REDIS_READS.has(name) ? 'read' : name === 'EXEC' ? 'commit' : 'write';
  return {
    kind,
    verb: name,
    target: key,
    targets: kind === 'write' ? [key] : [],
    label: `redis ${name} ${key}`.trim(),
    tolerant: /\sNX\b/i.test(text) || name.endsWith('NX'),
    commits: false,
  };
}

const NAME = String.raw`((?:"[^"]+"|[\w$]+)(?:\s*\.\s*(?:"[^"]+"|[\w$]+))?)`;
const WRITES: readonly (readonly [string, string, RegExp])[] = [
  ['INSERT', 'INSERT INTO', new RegExp(String.raw`\bINSERT\s+(?:OR\s+\w+\s+)?INTO\s+${NAME}`, 'gi')],
  // Not the one of `FOR UPDATE` or `DO UPDATE SET`.
  ['UPDATE', 'UPDATE', new RegExp(String.raw`(?<!\b(?:FOR|DO|KEY)\s+)\bUPDATE\s+(?:ONLY\s+)?(?!SET\b)${NAME}`, 'gi')],
  ['DELETE', 'DELETE FROM', new RegExp(String.raw`\bDELETE\s+FROM\s+(?:ONLY\s+)?${NAME}`, 'gi')],
  ['MERGE', 'MERGE INTO', new RegExp(String.raw`\bMERGE\s+INTO\s+${NAME}`, 'gi')],
];
const READ = new RegExp(String.raw`\bFROM\s+(?:ONLY\s+)?${NAME}`, 'i');
const CALL = new RegExp(String.raw`\b(?:SELECT|CALL)\s+${NAME}\s*\(`, 'i');

function sql(text: string): Statement {
  // What stands in a literal is no part of the statement.
  const bare = text.replace(/'(?:[^']|'')*'/g, "''");
  const [first = ''] = /\w+/.exec(bare) ?? [];
  const verb = first.toUpperCase();
  const tolerant = /\bON\s+CONFLICT\b|\bOR\s+IGNORE\b|\bNOT\s+EXISTS\b/i.test(bare);
  const commits = /(?:^|;)\s*(?:COMMIT|END)\b/i.test(bare);
  const statement = { kind: 'other', verb, target: '', targets: [], label: verb, tolerant, commits } as const;
  if (/^(?:COMMIT|END)$/.test(verb)) return { ...statement, kind: 'commit', label: 'COMMIT' };
  // ROLLBACK TO leaves the transaction open.
  if (/^(?:ROLLBACK|ABORT)$/.test(verb) && !/\bTO\b/i.test(bare))
    return { ...statement, kind: 'rollback', label: 'ROLLBACK' };
  const writes = WRITES.flatMap(([name, says, pattern]) =>
    [...bare.matchAll(pattern)].map(match => ({ name, says, at: match.index, target: plain(match[1]!) })),
  ).sort((a, b) => a.at - b.at);
  const [write] = writes;
  if (write !== undefined) {
    const { name, says, target } = write;
    return {
      ...statement,
      kind: 'write',
      verb: name,
      target,
      targets: writes.map(one => one.target),
      label: `${says} ${target}`,
    };
  }
  const read = READ.exec(bare);
  if (read !== null)
    return { ...statement, kind: 'read', target: plain(read[1]!), label: `${verb} FROM ${plain(read[1]!)}` };
  const call = CALL.exec(bare);
  if (call !== null)
    return {
      ...statement,
      kind: 'call',
      target: plain(call[1]!),
      targets: [plain(call[1]!)],
      label: `${verb} ${plain(call[1]!)}()`,
    };
  return statement;
}

function plain(name: string): string {
  return name.replace(/\s|"/g, '').replace(/^public\./, '');
}

/** The same for statements that differ in their values only. */
export function shapeOf(text: string): string {
  return text.replace(/'(?:[^']|'')*'|\b\d+(?:\.\d+)?\b/g, '?');
}
