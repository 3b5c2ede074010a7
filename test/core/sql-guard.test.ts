import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { MAX_SAVEPOINTS, TransactionGuard } from '../../src/stores/sql/guard.ts';

const code = (wanted: string) => expect.objectContaining({ code: wanted });
const never = () => Promise.reject(new Error('it was sent'));

let guard: TransactionGuard;
beforeEach(() => {
  guard = new TransactionGuard({ overlap: false });
});

describe('what may be sent', () => {
  test.each(['COMMIT', 'ROLLBACK', 'SELECT 1; BEGIN'])('%s is refused and never sent', async text => {
    await expect(guard.track(text, never)).rejects.toMatchObject({ code: 'NT_TX_FORBIDDEN' });
    expect(() => guard.run(text, () => expect.unreachable())).toThrow(code('NT_TX_FORBIDDEN'));
  });

  test.each(['SAVEPOINT a', 'ROLLBACK TO a', 'RELEASE a', 'SET LOCAL x = 1', 'DECLARE c CURSOR FOR SELECT 1'])(
    '%s is refused by name only while handlers overlap',
    text => {
      guard.admit('SAVEPOINT a');
      expect(() => guard.admit(text)).not.toThrow();
      const overlapping = new TransactionGuard({ overlap: true });
      expect(() => overlapping.admit(text)).toThrow(code('NT_TX_FORBIDDEN'));
      expect(() => overlapping.admit(text)).toThrow(/while handlers overlap/);
    },
  );

  test('C16: the 65th savepoint is refused', () => {
    for (let i = 0; i < MAX_SAVEPOINTS; i++) guard.admit(`SAVEPOINT s${i}`);
    expect(() => guard.admit('SAVEPOINT one_more')).toThrow(code('NT_TX_FORBIDDEN'));
    expect(guard.savepoints).toBe(MAX_SAVEPOINTS);
  });

  test('ROLLBACK TO reaches savepoints of the same message only', () => {
    guard.admit('SAVEPOINT a');
    guard.admit('ROLLBACK TO A');
    guard.nextMessage();
    expect(() => guard.admit('ROLLBACK TO a')).toThrow(code('NT_TX_FORBIDDEN'));
  });
});

describe('C18: what is still in flight', () => {
  test('is waited for, whether it succeeds or fails, and so is what it started', async () => {
    const [one, two] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const events: string[] = [];
    void guard.track('SELECT 1', () => one.promise.then(() => void guard.track('SELECT 2', () => two.promise)));
    const drained = guard.drained().then(() => events.push('drained'));
    expect(guard.inFlight).toBe(1);
    one.resolve();
    await nextTurn();
    expect(events).toEqual([]);
    two.reject(new Error('no'));
    await drained;
    expect([guard.inFlight, guard.used]).toEqual([0, 2]);
  });

  test('a failure that nobody awaits does not end the process', async () => {
    void guard.track('SELECT 1', () => Promise.reject(new Error('no')));
    void guard.track('SELECT 2', () => {
      throw new Error('the client itself');
    });
    await guard.drained();
    await nextTurn();
    expect(guard.firstFailure?.statement).toBe('SELECT …');
  });

  test('a refused statement that nobody awaits fails the transaction, with the reason as its cause', async () => {
    void guard.track('COMMIT', never);
    await nextTurn();
    expect(() => guard.assertSeen()).toThrow(
      expect.objectContaining({ code: 'NT_TX_ABORTED', cause: code('NT_TX_FORBIDDEN') }),
    );
  });

  test.each([
    ['await', async (refused: Promise<unknown>) => void (await refused.catch(() => undefined))],
    ['Promise.all', async (refused: Promise<unknown>) => void (await Promise.all([refused]).catch(() => undefined))],
    ['Promise.allSettled', async (refused: Promise<unknown>) => void (await Promise.allSettled([refused]))],
    [
      'try and catch',
      async (refused: Promise<unknown>) => {
        try {
          await refused;
        } catch (error) {
          expect(error).toMatchObject({ code: 'NT_TX_FORBIDDEN' });
        }
      },
    ],
  ])('one that was looked at through %s does not', async (_, look) => {
    await look(guard.track('COMMIT', never));
    expect(() => guard.assertSeen()).not.toThrow();
  });
});

describe('the first failure', () => {
  const fail = (text: string, error = new Error('no')) =>
    guard.track(text, () => Promise.reject(error)).catch(() => undefined);
  const succeed = (text: string) => guard.track(text, () => Promise.resolve());

  test('is the one that is named, with its code and without its values', async () => {
    await fail("INSERT INTO card VALUES ('4111', 5)", Object.assign(new Error('x'), { code: '23505' }));
    await fail('SELECT 2', Object.assign(new Error('x'), { code: '25P02' }));
    const error = guard.abortedError();
    expect(error).toMatchObject({ code: 'NT_TX_ABORTED', retryable: true, cause: { code: '23505' } });
    expect(error.message).toMatch(/^a statement failed \(23505 in "INSERT INTO card VALUES \('…', …\)"\)/);
  });

  test('is forgotten once the database takes statements again', async () => {
    await fail('SELECT 1');
    await succeed('ROLLBACK TO s').catch(() => undefined);
    expect(guard.firstFailure).toBeDefined();
    await succeed('SELECT 1');
    expect(guard.firstFailure).toBeUndefined();
    await fail('SELECT 1');
    guard.undone();
    expect(guard.firstFailure).toBeUndefined();
  });

  test('is also seen when the client waits for the statement itself', async () => {
    const outcome = Promise.reject(new Error('no'));
    guard.watch('SELECT 1', outcome);
    await nextTurn();
    expect(guard.firstFailure).toMatchObject({ statement: 'SELECT …' });
    expect(guard.inFlight).toBe(0);
  });

  test('is remembered from a synchronous client, which throws', () => {
    const error = new Error('no');
    expect(() =>
      guard.run('SELECT 1', () => {
        throw error;
      }),
    ).toThrow(error);
    expect(guard.firstFailure?.error).toBe(error);
    expect(guard.run('SELECT 1', () => 7)).toBe(7);
    expect(guard.firstFailure).toBeUndefined();
  });
});

describe('after the end', () => {
  const reason = new Error('the time limit');
  beforeEach(() => guard.close(reason));
  afterEach(() => expect(guard.used).toBe(0));

  test('every use throws NT_TX_CLOSED with the reason as its cause, and nothing is sent', async () => {
    await expect(guard.track('SELECT 1', never)).rejects.toMatchObject({ code: 'NT_TX_CLOSED', cause: reason });
    expect(() => guard.admit('SELECT 1')).toThrow(code('NT_TX_CLOSED'));
    expect(() => guard.run('SELECT 1', () => expect.unreachable())).toThrow(code('NT_TX_CLOSED'));
    expect(() => guard.assertOpen()).toThrow(code('NT_TX_CLOSED'));
  });

  test('the first reason stays', () => {
    guard.close(new Error('another'));
    expect(guard.isClosed).toBe(true);
    expect(() => guard.assertOpen()).toThrow(expect.objectContaining({ cause: reason }));
  });
});
