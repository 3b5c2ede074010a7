import { classifyFailure, failureCode } from '../core/failures.ts';
import { isNevertwiceError, type NevertwiceError } from '../errors.ts';
import { CommandError } from './command-error.ts';
import { EXIT } from './exit-codes.ts';
import { userFrame } from './user-frame.ts';

export interface Failure {
  readonly text: string;
  readonly exitCode: number;
}

/** What a person is told about an error that ended a command. A stack only where nobody knows what it means. */
export function describeFailure(error: unknown): Failure {
  if (error instanceof CommandError) return failure(error.message, error.exitCode);
  if (isNevertwiceError(error)) return failure(inWords(error), STORE_CODES.has(error.code) ? EXIT.store : EXIT.mistake);
  const frame = userFrame(error);
  if (frame !== undefined) return failure(`${firstLine(error)}\n    ${frame}`, EXIT.mistake);
  // A statement of the module's `setup`: one of ours would come as an error of nevertwice.
  if (classifyFailure(error) === 'handler') {
    return failure(`the database refused a statement (${failureCode(error)}): ${firstLine(error)}`, EXIT.mistake);
  }
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { text: `unexpected error: ${text}`, exitCode: EXIT.unexpected };
}

const STORE_CODES: ReadonlySet<string> = new Set(['NT_STORE_DOWN', 'NT_UNAVAILABLE', 'NT_SCHEMA', 'NT_COMMIT_UNKNOWN']);

/** What to do about a connection that was refused, by the code that the server or the system gave. */
const ADVICE: ReadonlyMap<string | undefined, string> = new Map([
  ['ECONNREFUSED', 'no server listens there; check host and port, or start it'],
  ['ENOTFOUND', 'there is no such host; check its name'],
  ['28P01', 'check user and password'],
  ['28000', 'check the user, and whether the server lets it in from here'],
  ['3D000', 'create the database first'],
]);

function inWords(error: NevertwiceError): string {
  const text = firstLine(error);
  if (error.code !== 'NT_STORE_DOWN' || !(error.cause instanceof Error)) return text;
  // The server's own words say which user, database or address it was; they never hold a password.
  const reason = error.cause.message === '' ? [] : [firstLine(error.cause)];
  const advice = ADVICE.get(failureCode(error.cause));
  return [[text, ...reason].join(': '), ...(advice === undefined ? [] : [advice])].join('; ');
}

function failure(text: string, exitCode: number): Failure {
  return { text: `error: ${text}`, exitCode };
}

function firstLine(error: unknown): string {
  const text = error instanceof Error ? error.message || error.name : String(error);
  return text.split('\n', 1)[0] as string;
}
