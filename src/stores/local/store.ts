import { NevertwiceError } from '../../errors.ts';
import type { Attempts } from '../../ports/attempts.ts';
import type { Letters } from '../../ports/letters.ts';
import type {
  ConsumerRegistration,
  Counts,
  LeaseInbox,
  LeaseStore,
  Positions,
  StoreCapabilities,
} from '../../ports/store.ts';
import { assertNamed } from '../registration.ts';
import { sqliteAttempts } from '../sqlite/attempts.ts';
import { insertDeadLetters, readBlockedKeys } from '../sqlite/dead-letters.ts';
import { registerConsumer } from '../sqlite/inbox.ts';
import { sqliteLetters } from '../sqlite/letters.ts';
import { readPosition, writePosition } from '../sqlite/positions.ts';
import { readCounts } from '../sqlite/stats.ts';
import { LeaseFile } from './lease-file.ts';
import { LeaseRows } from './lease-rows.ts';
import { type LocalOptions, type LocalSettings, localSettings } from './options.ts';
import { resultText } from './results.ts';
import { DONE } from './schema.ts';
import { Sweeper } from './sweeper.ts';

/**
 * A lease store in a file of this machine: low latency without a server, for effects that live outside SQL.
 *
 * At-least-once. What was completed is remembered over restarts and crashes of the process; see `LocalOptions.durable`
 * for power cuts. A process that dies between its effect and `complete` leaves the one window for a double effect.
 * Processes of one machine may share the file; another machine does not have it, and everything in flight that moves
 * there is new to it. Give a path on a local disk: the locks of network file systems do not hold.
 *
 * The file is created at first use, by node:sqlite in WAL mode, and kept for this store alone. One that is damaged or
 * belongs to another application is refused, never replaced. Calls are one short transaction each. A handler's result is
 * kept as JSON; one that JSON cannot carry is refused with NT_CONFIG before anything of its batch is written.
 *
 * @throws NT_CONFIG for a path or an option that is wrong. From `open` and later calls: NT_CONFIG for a file or directory
 * that cannot be used, NT_SCHEMA for a file of a later version, NT_STORE_DOWN for a full disk, one that fails, or a lock
 * that stays taken for `busyTimeoutMs`.
 */
export function localStore(path: string, options: LocalOptions = {}): LeaseStore {
  if (typeof path !== 'string' || path === '' || path === ':memory:') {
    throw new NevertwiceError(
      'NT_CONFIG',
      'localStore wants the path of a file; memoryStore() is the one without a file',
    );
  }
  return new LocalStore(path, localSettings(options));
}

class LocalStore implements LeaseStore {
  readonly promise = 'at-least-once';
  readonly capabilities: StoreCapabilities = {
    overlap: 'a lease store has no transaction for handlers to overlap in',
    connections: undefined,
  };
  readonly name: string;
  readonly positions: Positions;
  readonly letters: Letters;
  readonly attempts: Attempts;
  readonly #settings: LocalSettings;
  readonly #file: LeaseFile;
  readonly #sweeper: Sweeper;
  #staleCalls = 0;

  constructor(path: string, settings: LocalSettings) {
    this.name = `local ${path}`;
    this.#settings = settings;
    this.#file = new LeaseFile(this.name, path, settings);
    this.#sweeper = new Sweeper(this.#file, settings.retentionMs);
    const { names } = settings.sqlite;
    this.positions = {
      load: (consumer, lane) => this.#file.read(connection => readPosition(connection, names, consumer, lane)),
      save: (consumer, lane, position) =>
        this.#file.write(connection => writePosition(this.name, connection, names, { consumer, lane, position })),
    };
    this.letters = sqliteLetters(names, {
      read: work => this.#file.read(work),
      write: work => this.#file.write(work),
    });
    this.attempts = sqliteAttempts(names, { write: work => this.#file.write(work) });
  }

  get staleCalls(): number {
    return this.#staleCalls;
  }

  async open(registration: ConsumerRegistration): Promise<LeaseInbox> {
    assertNamed(registration);
    const { names } = this.#settings.sqlite;
    const consumer = await this.#file.write(connection => registerConsumer(connection, names, registration));
    const rows = new LeaseRows(consumer, this.#settings.retentionMs);
    const file = this.#file;
    // What the last process left behind expires too.
    this.#sweeper.wake();
    return {
      retentionMs: this.#settings.retentionMs,
      claim: async (claims, leaseMs) => {
        const grants = await file.write((connection, now) =>
          claims.map(claim => rows.claim(connection, now, claim, leaseMs)),
        );
        this.#sweeper.wake();
        return grants;
      },
      renew: async (items, leaseMs) =>
        this.#counted(
          await file.write((connection, now) => items.map(item => rows.renew(connection, now, item, leaseMs))),
        ),
      complete: async items => {
        // Before the transaction: a result that cannot be kept must not take its neighbours' half-way.
        const texts = items.map(item => resultText(item.result));
        return this.#counted(
          await file.write((connection, now) =>
            items.map((item, i) => rows.complete(connection, now, item, texts[i] ?? null)),
          ),
        );
      },
      release: async items =>
        this.#counted(await file.write((connection, now) => items.map(item => rows.release(connection, now, item)))),
      inspect: claims => file.read((connection, now) => claims.map(claim => rows.inspect(connection, now, claim))),
      deadLetter: letters => file.write(connection => insertDeadLetters(connection, names, consumer, letters)),
      blockedKeys: keys => file.read(connection => readBlockedKeys(connection, names, consumer, keys)),
    };
  }

  // Writes, since that is what the next message will need: a full disk still reads.
  async ping(): Promise<void> {
    await this.#file.write(() => undefined);
  }

  stats(): Promise<readonly Counts[]> {
    return this.#file.read((connection, now) => {
      const since = now - this.#settings.retentionMs;
      const done = `(SELECT consumer, at FROM ids WHERE state = ${DONE} AND at > ${since})`;
      return readCounts(connection, this.#settings.sqlite.names, done);
    });
  }

  async close(): Promise<void> {
    this.#sweeper.stop();
    await this.#file.close();
  }

  #counted(owned: readonly boolean[]): readonly boolean[] {
    this.#staleCalls += owned.filter(own => !own).length;
    return owned;
  }
}
