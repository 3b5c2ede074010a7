import { describe, expect, test } from 'vitest';
import { classifyFailure, type Failure, failureCode } from '../../src/core/failures.ts';

/** An error as `pg`, PGlite and postgres.js throw it. The text is in a language that no classification could read. */
function sqlState(code: string): Error {
  return Object.assign(new Error('повторяющееся значение ключа нарушает ограничение уникальности'), { code });
}

const POSTGRES: Readonly<Record<Failure, readonly string[]>> = {
  transient: ['40001', '40P01'],
  contended: ['55P03'],
  outage: [
    ...['08000', '08001', '08003', '08004', '08006', '08007', '08P01'],
    ...['53000', '53100', '53200', '53300'],
    ...['57P01', '57P02', '57P03', '57P05'],
    ...['25006', '58000', '58030', 'F0000'],
  ],
  handler: [
    ...['23503', '23505', '23514', '25P02', '25P03', '42P01', '42501', '22P02', '22P05', '22012', '57014'],
    ...['0A000', '21000', '26000', '3B001', '53400', '54000', '55006', '57P04', 'HV000', 'P0001', 'P0002', 'XX000'],
  ],
};

const NODE = [
  ...['ECONNREFUSED', 'ECONNRESET', 'ECONNABORTED', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH', 'ENETDOWN'],
  ...['ENOTFOUND', 'EAI_AGAIN', 'ENOENT'],
];
const POSTGRES_JS = ['CONNECTION_CLOSED', 'CONNECTION_ENDED', 'CONNECTION_DESTROYED', 'CONNECT_TIMEOUT'];

const SQLITE: readonly (readonly [code: number, name: string, Failure])[] = [
  [5, 'SQLITE_BUSY', 'transient'],
  [261, 'SQLITE_BUSY_RECOVERY', 'transient'],
  [517, 'SQLITE_BUSY_SNAPSHOT', 'transient'],
  [6, 'SQLITE_LOCKED', 'transient'],
  [262, 'SQLITE_LOCKED_SHAREDCACHE', 'transient'],
  [8, 'SQLITE_READONLY', 'outage'],
  [1032, 'SQLITE_READONLY_DBMOVED', 'outage'],
  [10, 'SQLITE_IOERR', 'outage'],
  [778, 'SQLITE_IOERR_WRITE', 'outage'],
  [13, 'SQLITE_FULL', 'outage'],
  [14, 'SQLITE_CANTOPEN', 'outage'],
  [1, 'SQLITE_ERROR', 'handler'],
  [19, 'SQLITE_CONSTRAINT', 'handler'],
  [1555, 'SQLITE_CONSTRAINT_PRIMARYKEY', 'handler'],
  [2067, 'SQLITE_CONSTRAINT_UNIQUE', 'handler'],
  [23, 'SQLITE_AUTH', 'handler'],
];

const MYSQL: readonly (readonly [errno: number, code: string, Failure])[] = [
  [1213, 'ER_LOCK_DEADLOCK', 'transient'],
  [1205, 'ER_LOCK_WAIT_TIMEOUT', 'transient'],
  [1062, 'ER_DUP_ENTRY', 'handler'],
];

describe('C01: errors are classified by code, whatever language their text is in', () => {
  test.each(Object.entries(POSTGRES).flatMap(([failure, codes]) => codes.map(code => [code, failure] as const)))(
    'PostgreSQL %s is %s',
    (code, failure) => {
      expect(classifyFailure(sqlState(code))).toBe(failure);
      expect(failureCode(sqlState(code))).toBe(code);
    },
  );

  test.each([...NODE, ...POSTGRES_JS])('%s is an outage', code => {
    expect(classifyFailure(sqlState(code))).toBe('outage');
  });

  test.each(SQLITE)('SQLite %i, %s, is %s from every client', (code, name, failure) => {
    const fromNode = Object.assign(new Error('x'), { code: 'ERR_SQLITE_ERROR', errcode: code });
    expect(classifyFailure(fromNode)).toBe(failure);
    expect(failureCode(fromNode)).toBe(`SQLITE ${code}`);
    expect(classifyFailure(sqlState(name))).toBe(failure);
  });

  test.each(MYSQL)('MySQL %i, %s, is %s', (errno, code, failure) => {
    expect(classifyFailure(Object.assign(new Error('x'), { errno, code }))).toBe(failure);
  });

  test.each([1, 2, 4])('an error that an ORM wrapped %i times is found', times => {
    let error: unknown = sqlState('40P01');
    for (let i = 0; i < times; i++) error = new Error('Failed query: insert into "wallet" …', { cause: error });
    expect(classifyFailure(error)).toBe('transient');
    expect(failureCode(error)).toBe('40P01');
  });

  test('the outermost code counts', () => {
    const wrapped = Object.assign(new Error('x', { cause: sqlState('40P01') }), { code: '23505' });
    expect(classifyFailure(wrapped)).toBe('handler');
  });
});

describe('what is no code of a database or of the network is left to the caller', () => {
  const loop = new Error('x');
  loop.cause = loop;

  test.each([
    ['an error without a code', new Error('duplicate key value violates unique constraint')],
    ['an error whose text has a code', new Error('40001: could not serialize access')],
    ['an application code', sqlState('INSUFFICIENT_FUNDS')],
    ['an application code of five letters', sqlState('LIMIT')],
    ['a code that is a number', Object.assign(new Error('x'), { code: 40001 })],
    ['an error of Node that is about a file', sqlState('EACCES')],
    ['an error of this library', sqlState('NT_HANDLER_TIMEOUT')],
    ['a string', '40001'],
    ['null', null],
    ['undefined', undefined],
    ['a cause that goes round in circles', loop],
  ])('%s', (_, error) => {
    expect(classifyFailure(error)).toBeUndefined();
  });
});
