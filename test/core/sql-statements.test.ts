import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { savepointName, statementKinds, statementSummary } from '../../src/stores/sql/statements.ts';

const word = fc.constantFrom(
  'SELECT',
  '1',
  'x',
  ',',
  '=',
  '(',
  ')',
  'FROM',
  't',
  '::text',
  '|| ',
  '$1',
  'e',
  'AS',
  '\n',
);
const troublesome = fc
  .array(
    fc.constantFrom('COMMIT', '; COMMIT;', "'", '"', '$', '$$', '$a$', '\\', '/', '*', '--', '\n', 'x', '`', 'é'),
    {
      maxLength: 8,
    },
  )
  .map(parts => parts.join(''));
const withoutComments = troublesome.map(text => text.replaceAll('/', '').replaceAll('*', ''));
const nestedComment = fc.letrec<{ comment: string; inside: string }>(tie => ({
  comment: tie('inside').map(inside => `/* ${inside} */`),
  inside: fc.oneof(
    { depthSize: 'small' },
    withoutComments,
    fc.tuple(withoutComments, tie('comment')).map(p => p.join(' ')),
  ),
})).comment;

const comment = fc.oneof(
  troublesome.map(text => `-- ${text.replaceAll('\n', ' ')}\n`),
  nestedComment,
);

/** Text in which a COMMIT is no statement, as PostgreSQL reads it. */
const quoted = fc.oneof(
  troublesome.map(text => `'${text.replaceAll("'", "''")}'`),
  troublesome.map(text => `E'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`),
  troublesome.map(text => `"${text.replaceAll('"', '""')}"`),
  troublesome.map(text => `$body$${text.replaceAll('$', '')}$body$`),
  troublesome.map(text => `$$${text.replaceAll('$', '')}$$`),
  comment,
);
const harmless = fc.array(fc.oneof(word, quoted), { minLength: 1, maxLength: 12 }).map(parts => parts.join(' '));
const ending = fc.constantFrom(
  'COMMIT',
  'commit',
  'Rollback',
  'BEGIN',
  'START TRANSACTION',
  'END',
  'ABORT',
  "PREPARE TRANSACTION 'x'",
);

describe('what would end the transaction', () => {
  test('is never found inside quotes and comments', () => {
    fc.assert(
      fc.property(harmless, text => {
        expect(statementKinds(text)).not.toContain('ends-transaction');
      }),
      { numRuns: 1_000 },
    );
  });

  test('is always found outside of them, whatever stands around it', () => {
    fc.assert(
      fc.property(harmless, ending, fc.option(comment, { nil: '' }), harmless, (before, end, between, after) => {
        expect(statementKinds(`${before}; ${between} ${end} ; ${after}`)).toContain('ends-transaction');
      }),
      { numRuns: 1_000 },
    );
  });

  test.each([
    ['COMMIT'],
    ['commit work'],
    ['END'],
    ['ABORT'],
    ['ROLLBACK'],
    ['ROLLBACK AND CHAIN'],
    ['BEGIN'],
    ['begin isolation level serializable'],
    ['START TRANSACTION READ ONLY'],
    ["PREPARE TRANSACTION 'x'"],
    ['SELECT 1; COMMIT'],
    ['SELECT 1;;;\n\tCOMMIT;'],
    ['/* a /* b */ c */ COMMIT'],
    ['-- x\nCOMMIT'],
    ["SELECT '\\'; COMMIT"],
    ["SELECT E'\\\\'; COMMIT"],
    ["SELECT 'it''s'; COMMIT"],
    ['SELECT $a$ $b$ $a$; COMMIT'],
    ['SELECT a$b$c; COMMIT; SELECT d$b$e'],
    ['SELECT $1; COMMIT; SELECT $1'],
    ['CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; END; COMMIT'],
    ['CREATE TRIGGER begin AFTER INSERT ON t BEGIN DELETE FROM u; END; COMMIT'],
    ['CREATE TABLE begin (x int); COMMIT'],
    ['CREATE FUNCTION f() RETURNS int AS $$ BEGIN RETURN 1; END $$ LANGUAGE plpgsql; COMMIT'],
  ])('%s', text => {
    expect(statementKinds(text)).toContain('ends-transaction');
  });

  test.each([
    ["SELECT E'\\'; COMMIT; --'"],
    ["SELECT e'a\\\\\\'; COMMIT'"],
    ['SELECT "a""; COMMIT"'],
    ['SELECT $tag$ $$; COMMIT; $$ $tag$'],
    ['SELECT $é$; COMMIT $é$'],
    ["SELECT 'never closed; COMMIT"],
    ['/* never /* closed */ COMMIT'],
    ['SELECT 1 AS commit, begin FROM t'],
    ['COMMENT ON TABLE t IS NULL'],
    ['SELECT committed FROM t'],
    ['PREPARE p AS SELECT 1'],
    ['CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 ELSE 2 END; SELECT 1; END'],
    ['create or replace procedure p() begin atomic insert into t values (1); end'],
    ['CREATE TEMP TRIGGER IF NOT EXISTS tr AFTER INSERT ON t BEGIN DELETE FROM u; UPDATE v SET x = 1; END;'],
    ['CREATE FUNCTION f() RETURNS int AS $$ BEGIN RETURN 1; END; $$ LANGUAGE plpgsql'],
    ["DO $$ BEGIN RAISE EXCEPTION 'COMMIT;'; END $$"],
  ])('but not %s', text => {
    expect(statementKinds(text).filter(kind => kind !== 'plain')).toEqual([]);
  });
});

describe('other kinds of statements', () => {
  test.each([
    ['SAVEPOINT s', 'savepoint'],
    ['ROLLBACK TO s', 'rollback-to'],
    ['rollback work to savepoint s', 'rollback-to'],
    ['RELEASE SAVEPOINT s', 'release'],
    ["SET LOCAL work_mem = '1MB'", 'set-local'],
    ['SET TRANSACTION READ ONLY', 'set-local'],
    ['SET CONSTRAINTS ALL DEFERRED', 'set-local'],
    ["SET work_mem = '1MB'", 'plain'],
    ['DECLARE c CURSOR FOR SELECT 1', 'cursor'],
    ['FETCH 10 FROM c', 'cursor'],
    ['MOVE 1 IN c', 'cursor'],
    ['INSERT INTO t VALUES (1)', 'plain'],
  ])('%s is %s', (text, kind) => {
    expect(statementKinds(text)).toEqual([kind]);
    expect(statementKinds(`/* c */ ${text};`)).toEqual([kind]);
  });

  test('each of several statements is told, and an empty text has none', () => {
    expect(statementKinds('SELECT 1; SAVEPOINT a; FETCH 1 FROM c; ')).toEqual(['plain', 'savepoint', 'cursor']);
    expect(statementKinds('')).toEqual([]);
    expect(statementKinds(' ; -- nothing\n;')).toEqual([]);
  });

  test('the answer is the same when asked again, and after thousands of other texts', () => {
    const before = statementKinds('SAVEPOINT s');
    for (let i = 0; i < 5_000; i++) statementKinds(`SELECT ${i}`);
    expect(statementKinds('SAVEPOINT s')).toEqual(before);
  });

  test.each([
    ['SAVEPOINT A', 'a'],
    ['savepoint "A b"', 'A b'],
    ['ROLLBACK TO SAVEPOINT a', 'a'],
    ['ROLLBACK TRANSACTION TO a', 'a'],
    ['SELECT 1', ''],
  ])('%s names %s', (text, name) => {
    expect(savepointName(text)).toBe(name);
  });
});

describe('the start of a statement for an error line', () => {
  test('shows no values, no line breaks, and at most 60 characters', () => {
    expect(statementSummary("INSERT INTO card\n VALUES ('4111 1111', 42, 4.5, 'it''s')")).toBe(
      "INSERT INTO card VALUES ('…', …, …, '…')",
    );
    expect(statementSummary('SELECT a1, $1, t2.x3 FROM t2')).toBe('SELECT a1, $1, t2.x3 FROM t2');
    fc.assert(
      fc.property(fc.string(), fc.string({ minLength: 3 }), (text, secret) => {
        const summary = statementSummary(`SELECT '${secret.replaceAll("'", "''")}' ${text}`);
        expect(summary.length).toBeLessThanOrEqual(60);
        expect(summary).not.toMatch(/\n/);
        expect(summary.startsWith("SELECT '…'")).toBe(true);
      }),
    );
  });
});
