import { describe, expect, test } from 'vitest';
import { postgresStore } from '../../src/stores/postgres/index.ts';

const pool = { connect: () => Promise.reject(new Error('it was asked')) };
const executor = { transaction: () => Promise.reject(new Error('it was asked')), query: () => Promise.reject() };

describe('options of the PostgreSQL store are checked before anything is sent', () => {
  test.each<[string, unknown, object, string]>([
    ['an isolation level that there is not', pool, { isolation: 'snapshot' }, "'serializable'"],
    ['text that would go into BEGIN', pool, { isolation: 'serializable; DROP TABLE x' }, 'isolation'],
    ['another way to migrate', pool, { migrate: 'never' }, "'auto' or 'check'"],
    ['no time for locks', pool, { lockTimeoutMs: 0 }, 'lockTimeoutMs'],
    ['half a millisecond', pool, { acquireTimeoutMs: 0.5 }, 'acquireTimeoutMs'],
    ['more than ten minutes for a reply', executor, { replyTimeoutMs: 600_001 }, 'replyTimeoutMs'],
    ['wrap without unwrap', pool, { wrap: (client: unknown) => client }, 'unwrap'],
    ['isolation with an executor', executor, { isolation: 'serializable' }, 'isolation is for a pg pool'],
    ['no client at all', 'postgres://localhost/x', {}, 'needs a pg pool'],
    [
      'postgres.js without its executor',
      Object.assign(() => undefined, { begin: () => undefined }),
      {},
      'postgresJs(sql)',
    ],
  ])('%s', (_, client, options, named) => {
    const make = () => postgresStore(client as never, options as never);
    expect(make).toThrow(expect.objectContaining({ code: 'NT_CONFIG' }));
    expect(make).toThrow(named);
  });

  test('what is undefined counts as not given', () => {
    const options = { isolation: undefined, migrate: undefined, schema: undefined, lockTimeoutMs: undefined };
    expect(() => postgresStore(pool as never, options as never)).not.toThrow();
    expect(() => postgresStore(executor as never, options as never)).not.toThrow();
  });
});
