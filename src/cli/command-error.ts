import { EXIT } from './exit-codes.ts';

/** Ends a command with one line for a person, without a stack. */
export class CommandError extends Error {
  readonly exitCode: number;

  constructor(message: string, options: { readonly exitCode?: number; readonly cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.name = 'CommandError';
    this.exitCode = options.exitCode ?? EXIT.mistake;
  }
}
