import { createReadStream } from 'node:fs';
import { access, constants, type FileHandle, open, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { NevertwiceError } from '../../errors.ts';
import { StreamBytes, unreadable } from './bytes.ts';

/** A path, several of them, or an open stream. `-` is standard input. */
export type JsonlInput = string | readonly string[] | NodeJS.ReadableStream;

/** One input that has been named and not opened. */
export interface Input {
  /** As it was named, for people. */
  readonly name: string;
  /** What its lane id ends with. Absolute for a file: the same file is the same lane wherever the process was started. */
  readonly identity: string;
  readonly stream: NodeJS.ReadableStream | undefined;
}

/** @throws NevertwiceError NT_CONFIG for no input, an empty name, or one input twice */
export function inputsFrom(input: JsonlInput): readonly Input[] {
  if (typeof input === 'object' && 'read' in input) return [{ name: 'stream', identity: 'stream', stream: input }];
  const names = typeof input === 'string' ? [input] : [...input];
  if (names.length === 0 || names.includes('')) {
    throw new NevertwiceError(
      'NT_CONFIG',
      'no input is named, so there is nothing to read; name a file, or - for stdin',
    );
  }
  const inputs = names.map(name =>
    name === '-'
      ? { name: 'stdin', identity: 'stdin', stream: process.stdin }
      : { name, identity: resolve(name), stream: undefined },
  );
  const twice = inputs.find((one, i) => inputs.findIndex(other => other.identity === one.identity) !== i);
  if (twice !== undefined) {
    throw new NevertwiceError('NT_CONFIG', `input ${twice.name} is named twice, so its lines would race; name it once`);
  }
  return inputs;
}

/** @throws NevertwiceError NT_CONFIG when there is nothing that can be read */
export async function checkInput(input: Input): Promise<void> {
  if (input.stream !== undefined) return;
  try {
    await access(input.identity, constants.R_OK);
    if ((await stat(input.identity)).isDirectory()) throw Object.assign(new Error('a directory'), { code: 'EISDIR' });
  } catch (cause) {
    throw unreadable(input.name, cause);
  }
}

/** Opens a stream; undefined for a regular file, which `openFile` opens where it is to be read from. */
export async function openStream(input: Input): Promise<StreamBytes | undefined> {
  const { name, identity, stream } = input;
  if (stream === process.stdin) {
    // Destroyed when reading is over: a standard input that is only paused would keep the process alive.
    return new StreamBytes(name, process.stdin, () => process.stdin.destroy());
  }
  // Whoever opened a stream closes it.
  if (stream !== undefined) return new StreamBytes(name, stream, () => stream.pause());
  if ((await stat(identity)).isFile()) return undefined;
  const pipe = createReadStream(identity);
  return new StreamBytes(name, pipe, () => pipe.destroy());
}

/** @throws NevertwiceError NT_CONFIG when it cannot be opened */
export async function openFile(input: Input): Promise<FileHandle> {
  try {
    return await open(input.identity, 'r');
  } catch (cause) {
    throw unreadable(input.name, cause);
  }
}
