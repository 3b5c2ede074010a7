import { fstatSync } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { asBuffer, isBytes } from '../../core/bytes.ts';
import { NevertwiceError } from '../../errors.ts';
import { WaitList } from '../wait-list.ts';

/** Where the lines come from, as chunks of bytes. */
export interface ByteSource {
  /** Bytes in all, as far as they are there by now; undefined for a stream, which does not know. */
  readonly size: number | undefined;
  /**
   * The next chunk, valid until the next call; undefined at the end. `later` when nothing is there and the caller does
   * not want to wait, or `signal` aborted while it did.
   *
   * @throws NevertwiceError NT_CONFIG when it cannot be read
   */
  read(wait: boolean, signal: AbortSignal): Promise<Buffer | 'later' | undefined>;
  close(): Promise<void>;
}

// Large enough that the trip to the thread pool is lost in the parsing, small enough to stay in the second-level cache.
const CHUNK_BYTES = 128 * 1024;

/** A regular file from an offset on. Always has bytes at once, so it never says `later`. */
export class FileBytes implements ByteSource {
  readonly handle: FileHandle;
  readonly #name: string;
  readonly #chunk = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  #offset: number;

  constructor(name: string, handle: FileHandle, offset: number) {
    this.#name = name;
    this.handle = handle;
    this.#offset = offset;
  }

  get size(): number {
    return fstatSync(this.handle.fd).size;
  }

  async read(): Promise<Buffer | undefined> {
    try {
      const { bytesRead } = await this.handle.read(this.#chunk, 0, CHUNK_BYTES, this.#offset);
      this.#offset += bytesRead;
      return bytesRead === 0 ? undefined : this.#chunk.subarray(0, bytesRead);
    } catch (cause) {
      throw unreadable(this.#name, cause);
    }
  }

  close(): Promise<void> {
    return this.handle.close();
  }
}

/** A stream that somebody else writes at their own pace: a pipe, standard input. */
export class StreamBytes implements ByteSource {
  readonly size = undefined;
  readonly #name: string;
  readonly #stream: NodeJS.ReadableStream;
  readonly #release: () => void;
  readonly #changed = new WaitList();
  #ended = false;
  #error: unknown;

  /** @param release what to do with the stream when reading is over before its end */
  constructor(name: string, stream: NodeJS.ReadableStream, release: () => void) {
    this.#name = name;
    this.#stream = stream;
    this.#release = release;
    // A stream that is over already tells nobody again.
    const { readableEnded, destroyed, errored } = stream as Partial<NodeJS.ReadStream>;
    this.#ended = readableEnded === true || destroyed === true;
    this.#error = errored ?? undefined;
    stream.on('readable', this.#onReadable).on('end', this.#onEnd).on('close', this.#onEnd).on('error', this.#onError);
  }

  readonly #onReadable = () => this.#changed.wakeAll();

  readonly #onEnd = () => {
    this.#ended = true;
    this.#changed.wakeAll();
  };

  readonly #onError = (error: unknown) => {
    this.#error = error;
    this.#changed.wakeAll();
  };

  async read(wait: boolean, signal: AbortSignal): Promise<Buffer | 'later' | undefined> {
    while (true) {
      if (this.#error !== undefined) throw unreadable(this.#name, this.#error);
      const chunk: unknown = this.#ended ? null : this.#stream.read();
      if (chunk !== null) return isBytes(chunk) ? asBuffer(chunk) : Buffer.from(String(chunk));
      if (this.#ended) return undefined;
      if (!wait || signal.aborted) return 'later';
      await this.#changed.wait(signal);
    }
  }

  async close(): Promise<void> {
    const stream = this.#stream;
    stream.off('readable', this.#onReadable).off('end', this.#onEnd).off('close', this.#onEnd);
    if (!this.#ended) this.#release();
    stream.off('error', this.#onError);
  }
}

const WHY: ReadonlyMap<unknown, string> = new Map([
  ['ENOENT', 'does not exist'],
  ['ENOTDIR', 'does not exist'],
  ['EISDIR', 'is a directory'],
  ['EACCES', 'may not be read by this user'],
  ['EPERM', 'may not be read by this user'],
]);

export function unreadable(name: string, cause: unknown): NevertwiceError {
  const { code } = cause as { code?: unknown };
  const why = WHY.get(code) ?? `cannot be read (${String(code ?? 'no error code')})`;
  return new NevertwiceError('NT_CONFIG', `input ${name} ${why}; give a file of one JSON message a line`, { cause });
}
