import {
  AuthenticationError,
  MultipleErrors,
  NetworkError,
  ResponseError,
  UnsupportedCompressionError,
} from '@platformatic/kafka';
import { expect, test } from 'vitest';
import { startError } from '../../../src/sources/kafka/clients/platformatic/errors.ts';

const FIND_COORDINATOR = 10;
const SASL_AUTHENTICATE = 36;

/** A broker's answer as the client makes an error of it. */
const answer = (api: number, code: number) => new ResponseError(api, 1, { '': [code, null] }, {});
const tried = (error: Error) => new MultipleErrors('metadata failed 4 times.', [error, error]);

test.each([
  [
    'a wrong password',
    new NetworkError('Connection to b:1 failed.', {
      cause: new AuthenticationError('SASL authentication failed.', { cause: answer(SASL_AUTHENTICATE, 58) }),
    }),
  ],
  ['a group that it may not join', answer(FIND_COORDINATOR, 30)],
  ['a topic that it may not read', answer(3, 29)],
  [
    'records that it cannot decompress',
    new UnsupportedCompressionError('Unsupported compression algorithm with bitmask 3'),
  ],
])('%s: no retry helps, so NT_CONFIG, however often it was tried', (_, error) => {
  expect(startError(error)).toMatchObject({ code: 'NT_CONFIG', cause: error });
  expect(startError(tried(error))).toMatchObject({ code: 'NT_CONFIG' });
});

test.each([
  [
    'nobody answers',
    new NetworkError('Connection to b:1 failed.', { cause: Object.assign(new Error('no'), { code: 'ECONNREFUSED' }) }),
  ],
  [
    'the connection ends in the middle of the handshake',
    new NetworkError('Connection to b:1 failed.', {
      cause: new AuthenticationError('Cannot find a suitable SASL mechanism.', {
        cause: new NetworkError('Connection closed'),
      }),
    }),
  ],
  ['the group has no coordinator yet', answer(FIND_COORDINATOR, 15)],
])('%s: it may work later, so NT_SOURCE_DOWN', (_, error) => {
  expect(startError(error)).toMatchObject({ code: 'NT_SOURCE_DOWN', cause: error });
  expect(startError(tried(error))).toMatchObject({ code: 'NT_SOURCE_DOWN' });
});

test('it says what went wrong, and not how often', () => {
  expect(startError(tried(new NetworkError('Connection to b:1 failed.'))).message).toMatch(
    /Connection to b:1 failed\.$/,
  );
});
