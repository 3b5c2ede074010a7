import { NevertwiceError } from '../../errors.ts';
import { type Settings, settings } from '../sqlite/options.ts';

/** The wall clock that all processes on one file share. */
export interface LocalClock {
  /** Milliseconds since 1970. Where it runs backwards, the time of the file goes on from where it was. */
  now(): number;
}

export interface LocalOptions {
  /**
   * How long a completed id is kept, in milliseconds from its completion; then a copy of it is handled again. Claims that
   * were given up, or whose owner died, are forgotten as long after their end. Default 14 days.
   */
  readonly retentionMs?: number;
  /**
   * True: every claim, completion and dead letter is on the disk before the call resolves, which costs a wait for the disk
   * each. False (default): a process that dies loses nothing; a power cut or a crash of the operating system may lose the
   * last ones, and those messages are handled again.
   */
  readonly durable?: boolean;
  /**
   * Longest wait for another process that is writing, in milliseconds. The wait never blocks the event loop; when it is
   * over, the call rejects with NT_STORE_DOWN. Default 10,000.
   */
  readonly busyTimeoutMs?: number;
  /** For tests. Default: the system's, which within a process a change of the wall clock does not move. */
  readonly clock?: LocalClock;
}

export interface LocalSettings {
  readonly retentionMs: number;
  readonly durable: boolean;
  readonly clock: LocalClock;
  /** How the tables are called, and how long to wait for their lock. */
  readonly sqlite: Settings;
}

const DAY_MS = 86_400_000;

const systemLocalClock: LocalClock = { now: () => performance.timeOrigin + performance.now() };

export function localSettings(options: LocalOptions): LocalSettings {
  const retentionMs = options.retentionMs ?? 14 * DAY_MS;
  if (!Number.isSafeInteger(retentionMs) || retentionMs < 1) {
    throw new NevertwiceError(
      'NT_CONFIG',
      `localStore: retentionMs is ${retentionMs}; give a whole number of milliseconds, 1 or more`,
    );
  }
  return {
    retentionMs,
    durable: options.durable ?? false,
    clock: options.clock ?? systemLocalClock,
    sqlite: settings({
      tablePrefix: '',
      tables: { inbox: 'ids' },
      ...(options.busyTimeoutMs === undefined ? {} : { busyTimeoutMs: options.busyTimeoutMs }),
    }),
  };
}
