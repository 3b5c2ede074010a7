import { hash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import type { Clock } from '../../ports/clock.ts';
import type { Positions } from '../../ports/store.ts';
import type { Place } from './lines.ts';

/** How much before the offset must still be as it was. */
const CHECKED_BYTES = 1024;

export interface PositionOptions {
  readonly handle: FileHandle;
  readonly positions: Positions;
  readonly consumer: string;
  readonly lane: string;
  readonly clock: Clock;
  readonly saveEveryMs: number;
}

/**
 * How far a file has been done, kept in the consumer's store as `v1 <offset> <lines> <hash>`. The hash is of the last
 * KiB before the offset: a file that was replaced, cut or edited there must not be entered in its middle.
 */
export class FilePosition {
  readonly #options: PositionOptions;
  /** Undefined when what is stored is of another file and must go. */
  #saved: Place | undefined;
  #savedAtMs = Number.NEGATIVE_INFINITY;
  #saving: Promise<void> | undefined;

  private constructor(options: PositionOptions, saved: Place | undefined) {
    this.#options = options;
    this.#saved = saved;
  }

  /** Loads the position; `changed` when there is one that does not fit the file, which then starts from its begin. */
  static async load(options: PositionOptions): Promise<{ position: FilePosition; start: Place; changed: boolean }> {
    const text = await options.positions.load(options.consumer, options.lane);
    const stored = text === undefined ? undefined : decode(text);
    const fits = stored !== undefined && (await hashBefore(options.handle, stored.offset)) === stored.hash;
    const start = fits ? { offset: stored.offset, line: stored.line } : { offset: 0, line: 0 };
    const changed = text !== undefined && !fits;
    return { position: new FilePosition(options, changed ? undefined : start), start, changed };
  }

  /** Saves, unless nothing was done since, a save is under way, or (without `now`) the last one is too fresh. */
  async advance(place: Place, now: boolean): Promise<void> {
    const { clock, saveEveryMs } = this.#options;
    if (this.#saving !== undefined || place.offset === this.#saved?.offset) return;
    if (!now && clock.monotonicMs() - this.#savedAtMs < saveEveryMs) return;
    this.#saving = this.#save(place);
    try {
      await this.#saving;
    } finally {
      this.#saving = undefined;
    }
  }

  /** The last save: waits for one that is under way, whose failure its own caller hears of. */
  async finish(place: Place): Promise<void> {
    await this.#saving?.catch(() => undefined);
    await this.advance(place, true);
  }

  async #save(place: Place): Promise<void> {
    const { handle, positions, consumer, lane, clock } = this.#options;
    const checked = await hashBefore(handle, place.offset);
    // The file was cut under the reader. No position is better than one that fits what will be written there next.
    if (checked === undefined) return;
    await positions.save(consumer, lane, `v1 ${place.offset} ${place.line} ${checked}`);
    this.#saved = place;
    this.#savedAtMs = clock.monotonicMs();
  }
}

function decode(text: string): (Place & { hash: string }) | undefined {
  const [, offset, line, hash] = /^v1 (\d{1,15}) (\d{1,15}) ([0-9a-f]{32})$/.exec(text) ?? [];
  return hash === undefined ? undefined : { offset: Number(offset), line: Number(line), hash };
}

/** Undefined when the file does not reach that far. */
async function hashBefore(handle: FileHandle, offset: number): Promise<string | undefined> {
  const length = Math.min(CHECKED_BYTES, offset);
  const bytes = Buffer.alloc(length);
  for (let at = 0; at < length; ) {
    const { bytesRead } = await handle.read(bytes, at, length - at, offset - length + at);
    if (bytesRead === 0) return undefined;
    at += bytesRead;
  }
  return hash('sha256', bytes, 'hex').slice(0, 32);
}
