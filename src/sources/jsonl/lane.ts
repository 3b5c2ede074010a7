import type { Delivery } from '../../ports/delivery.ts';
import type { Lane, Settlement } from '../../ports/source.ts';
import type { ByteSource } from './bytes.ts';
import { deliveryFrom, faulty, isCompleteObject, type Origin } from './envelope.ts';
import type { Line, LineReader, Place } from './lines.ts';
import type { FilePosition } from './position.ts';
import { Window } from './window.ts';

/** A last line that is not all there yet: its writer may still be at it. */
export interface WaitingLine {
  /** The input as it was named. */
  readonly input: string;
  readonly line: number;
  /** Of the line so far. */
  readonly bytes: number;
}

export interface JsonlLaneOptions {
  readonly id: string;
  /** What positions begin with: `payments.jsonl`. */
  readonly name: string;
  readonly bytes: ByteSource;
  readonly lines: LineReader;
  readonly maxLineBytes: number;
  /** Undefined for a stream, which cannot be read again. */
  readonly position: FilePosition | undefined;
  /** The consumer's stop signal: from then on every settle is saved at once. */
  readonly stopping: AbortSignal;
  onWaiting(line: WaitingLine): void;
}

/** A batch ends early at this many bytes of lines, so that a batch of large messages stays within memory. */
const BATCH_BYTES = 4 * 1024 * 1024;
/** How much of a line that is too long is kept for its dead letter. */
const KEPT_BYTES = 64 * 1024;
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/** One file, or one stream. */
export class JsonlLane implements Lane {
  readonly id: string;
  readonly #options: JsonlLaneOptions;
  readonly #origin: Origin;
  readonly #revocation = new AbortController();
  readonly #window = new Window();
  #exhausted = false;

  constructor(options: JsonlLaneOptions) {
    this.id = options.id;
    this.#options = options;
    this.#origin = { lane: options.id, name: options.name };
  }

  get revoked(): AbortSignal {
    return this.#revocation.signal;
  }

  /** Bytes of lines that are not settled; undefined for a stream. 0 once the lane has ended. */
  get lag(): number | undefined {
    if (this.revoked.aborted) return 0;
    const { size } = this.#options.bytes;
    return size === undefined ? undefined : Math.max(0, size - this.#done().offset);
  }

  async receive(max: number, signal: AbortSignal): Promise<readonly Delivery[]> {
    const { bytes, lines } = this.#options;
    const deliveries: Delivery[] = [];
    let batchBytes = 0;
    while (deliveries.length < max && batchBytes < BATCH_BYTES && !signal.aborted && !this.revoked.aborted) {
      const line = this.#exhausted ? undefined : lines.next();
      if (line !== undefined) {
        const content = withoutMark(line);
        if (isBlank(content)) continue;
        batchBytes += content.to - content.from;
        deliveries.push(this.#deliver(content));
        continue;
      }
      if (this.#exhausted) break;
      const chunk = await bytes.read(deliveries.length === 0, signal);
      if (chunk === 'later') break;
      if (chunk !== undefined) {
        lines.push(chunk);
        continue;
      }
      this.#exhausted = true;
      const last = this.#last();
      if (last !== undefined) deliveries.push(last);
    }
    return deliveries;
  }

  async settle(settlements: readonly Settlement[]): Promise<void> {
    if (this.revoked.aborted) return;
    this.#window.settle(settlements.filter(({ settle }) => settle === 'ack').map(({ delivery }) => delivery));
    await this.#options.position?.advance(this.#done(), this.#options.stopping.aborted);
  }

  /** Ends the lane: saves how far it has come and closes its input. Rejects when the position could not be saved. */
  async close(): Promise<void> {
    if (this.revoked.aborted) return;
    this.#revocation.abort();
    try {
      await this.#options.position?.finish(this.#done());
    } finally {
      await this.#options.bytes.close();
    }
  }

  /** Everything before it is settled. */
  #done(): Place {
    return this.#window.lowest ?? this.#options.lines.place;
  }

  #deliver(line: Line): Delivery {
    const { maxLineBytes } = this.#options;
    const delivery = line.tooLong
      ? faulty(
          line,
          Math.min(line.to, line.from + KEPT_BYTES),
          `is longer than ${maxLineBytes} bytes: raise maxLineBytes`,
          this.#origin,
        )
      : deliveryFrom(line, this.#origin);
    this.#window.add(delivery, line.start);
    return delivery;
  }

  /** The line without a line end at the end of the input. */
  #last(): Delivery | undefined {
    const { name, lines, position, onWaiting } = this.#options;
    const rest = lines.rest();
    if (rest === undefined) return undefined;
    const content = withoutMark(rest);
    if (isBlank(content)) return undefined;
    const complete = !rest.tooLong && isCompleteObject(content);
    // The rest of a file may still come, and it will be read then. A stream that has ended is all that there is: what
    // was cut off must not vanish, and it is not JSON, so as a delivery it becomes a dead letter.
    if (!complete && position !== undefined) {
      onWaiting({ input: name, line: rest.start.line + 1, bytes: lines.restBytes });
      return undefined;
    }
    lines.takeRest();
    return this.#deliver(content);
  }
}

function isBlank({ buffer, from, to }: Line): boolean {
  // By index: an iterator for every line would cost as much as finding the line.
  for (let i = from; i < to; i++) {
    const byte = buffer[i];
    if (byte !== 0x20 && byte !== 0x09 && byte !== 0x0d) return false;
  }
  return true;
}

function withoutMark(line: Line): Line {
  const { start, buffer, from } = line;
  if (start.offset !== 0 || !buffer.subarray(from, from + 3).equals(BYTE_ORDER_MARK)) return line;
  return { ...line, from: from + 3 };
}
