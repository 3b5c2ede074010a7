import { classifyFailure } from '../../core/failures.ts';
import { NevertwiceError } from '../../errors.ts';
import type { Attempts } from '../../ports/attempts.ts';
import type { EffectRows } from '../../ports/effects.ts';
import type { LaneRows } from '../../ports/lanes.ts';
import type { Letters } from '../../ports/letters.ts';
import type { Sql } from '../../ports/sql.ts';
import type {
  Claim,
  ConsumerRegistration,
  Counts,
  Positions,
  StoreCapabilities,
  TransactionalInbox,
  TransactionalStore,
  TransactionOptions,
  Unit,
} from '../../ports/store.ts';
import { attemptsOn } from './attempts.ts';
import type { Driver, OpenTransaction } from './driver.ts';
import { effectsOn } from './effects.ts';
import { lanesOn } from './lanes.ts';
import { lettersOn } from './letters.ts';
import { migrationSql } from './migrations.ts';
import { PostgresOutbox } from './outbox/store.ts';
import { undoable } from './savepoints.ts';
import { check, exclusive, migrate, missing, register } from './setup.ts';
import { type Statement, type Statements, statementsFor } from './statements.ts';
import type { Tables } from './tables.ts';
import { claimError, PostgresUnit, sqlOn } from './unit.ts';

export interface PostgresStoreSettings {
  readonly migrate: 'auto' | 'check';
  readonly lockMs: number;
  readonly idleMarginMs: number;
}

export class PostgresStore<Tx> implements TransactionalStore<Tx> {
  readonly promise = 'exactly-once';
  readonly name: string;
  readonly capabilities: StoreCapabilities;
  readonly positions: Positions;
  readonly lanes: LaneRows;
  readonly outbox: PostgresOutbox<Tx>;
  readonly effects: EffectRows;
  readonly letters: Letters;
  readonly attempts: Attempts;
  readonly #driver: Driver<Tx>;
  readonly #tables: Tables;
  readonly #statements: Statements;
  readonly #settings: PostgresStoreSettings;
  #ready: Promise<void> | undefined;

  constructor(driver: Driver<Tx>, tables: Tables, settings: PostgresStoreSettings) {
    this.#driver = driver;
    this.#tables = tables;
    this.#statements = statementsFor(tables);
    this.#settings = settings;
    this.name = `postgres (${driver.name})`;
    this.capabilities = { overlap: driver.overlap, connections: driver.connections };
    this.positions = positionsOn(driver, tables, () => this.#prepare());
    this.lanes = lanesOn(driver, tables, () => this.#prepare());
    this.outbox = new PostgresOutbox(driver, tables, () => this.#prepare());
    this.effects = effectsOn(driver, tables, () => this.#prepare());
    this.letters = lettersOn(driver, tables, () => this.#prepare());
    this.attempts = attemptsOn(driver, tables, () => this.#prepare());
  }

  async open(consumer: ConsumerRegistration): Promise<TransactionalInbox<Tx>> {
    await this.#prepare();
    const id = await register(this.#driver, this.#tables, consumer);
    return {
      transaction: (claims, options, work) => this.#claimed(id, claims, options, work),
      within: (tx, claims, work) => this.#within(id, tx, claims, work),
    };
  }

  // A store that could not be prepared (server down) must try again at the next open.
  #prepare(): Promise<void> {
    this.#ready ??= (async () => {
      if (this.#settings.migrate === 'auto') await migrate(this.#driver, this.#tables);
      await check(this.#driver, this.#tables);
    })().catch(error => {
      this.#ready = undefined;
      throw error;
    });
    return this.#ready;
  }

  async #claimed<R>(
    consumer: number,
    claims: readonly Claim[],
    options: TransactionOptions,
    work: (unit: Unit<Tx>) => Promise<R>,
  ): Promise<R> {
    let claiming = claims.length > 0;
    const first = claiming
      ? this.#claim(consumer, claims, options.budgetMs)
      : this.#statements.unclaimed(options.budgetMs + this.#settings.idleMarginMs);
    let unit: PostgresUnit<Tx> | undefined;
    try {
      const result = await this.#driver.transaction({ overlap: options.overlap, first }, (open, rows) => {
        claiming = false;
        unit = new PostgresUnit(open, this.#statements, consumer, claims, rows, this.outbox.adding);
        return work(unit);
      });
      if (unit?.hasAdded) this.outbox.wake();
      return result;
    } catch (error) {
      throw claiming ? claimError(error) : error;
    }
  }

  async #within<R>(
    consumer: number,
    tx: Tx,
    claims: readonly Claim[],
    work: (unit: Unit<Tx>) => Promise<R>,
  ): Promise<R> {
    const open = this.#driver.join(tx);
    let claiming = claims.length > 0;
    try {
      return await undoable(open, async () => {
        const rows = claiming ? await open.query(this.#claim(consumer, claims, undefined)) : [];
        claiming = false;
        try {
          const result = await work(
            new PostgresUnit(open, this.#statements, consumer, claims, rows, this.outbox.adding),
          );
          open.guard.assertSeen();
          return result;
        } finally {
          await open.guard.drained();
        }
      });
    } catch (error) {
      throw claiming ? claimError(error) : error;
    } finally {
      open.guard.close();
    }
  }

  #claim(consumer: number, claims: readonly Claim[], budgetMs: number | undefined): Statement {
    const keys = claims.map(c => c.hex);
    const fingerprints = claims.map(c => c.fingerprint);
    return this.#statements.claim(consumer, keys, fingerprints, {
      lockMs: this.#settings.lockMs,
      // Zero turns the limit off: in the caller's own transaction his own settings stand.
      idleMs: budgetMs === undefined ? 0 : budgetMs + this.#settings.idleMarginMs,
    });
  }

  transaction<R>(work: (tx: Tx, sql: Sql) => Promise<R>): Promise<R> {
    return this.#driver.transaction({ overlap: false, first: undefined }, (open: OpenTransaction<Tx>) =>
      work(open.tx, sqlOn(open)),
    );
  }

  setup(consumer: string, work: (sql: Sql) => Promise<void>): Promise<void> {
    const lock = `nevertwice setup ${this.#tables.schema} ${consumer}`;
    return exclusive(this.#driver, lock, open => work(sqlOn(open)));
  }

  async ping(): Promise<void> {
    await this.#driver.query({ text: 'SELECT 1', name: '', values: [] });
  }

  async stats(): Promise<readonly Counts[]> {
    const t = this.#tables.quoted;
    try {
      const count: Statement = {
        name: '',
        text: `SELECT c.name, i.n::text AS processed, d.n::text AS "deadLetters", (extract(epoch FROM i.oldest) * 1000)::text AS oldest,
  (extract(epoch FROM i.newest) * 1000)::text AS newest
FROM ${t.consumers} c
LEFT JOIN LATERAL (SELECT count(*) AS n, min(at) AS oldest, max(at) AS newest FROM ${t.inbox} WHERE consumer = c.id) i ON true
LEFT JOIN LATERAL (SELECT count(*) AS n FROM ${t.deadLetters} WHERE consumer = c.id AND closed_at IS NULL) d ON true
ORDER BY c.name`,
        values: [],
      };
      // In a transaction, where statements may take as long as they need: a large inbox is not counted in a moment.
      const begin = { overlap: false, first: undefined };
      const rows = await this.#driver.transaction(begin, open => open.query(count));
      return rows.map(row => ({
        consumer: row.name as string,
        processed: Number(row.processed),
        deadLetters: Number(row.deadLetters),
        oldest: row.oldest === null ? undefined : new Date(Number(row.oldest)),
        newest: row.newest === null ? undefined : new Date(Number(row.newest)),
      }));
    } catch (error) {
      if (classifyFailure(error) === 'handler') {
        throw new NevertwiceError('NT_SCHEMA', 'there are no nevertwice tables here; run nevertwice migrate', {
          cause: error,
        });
      }
      throw error;
    }
  }

  /** Applies missing migrations and returns their versions; an empty array when there was nothing to do. */
  migrate(): Promise<readonly number[]> {
    return migrate(this.#driver, this.#tables);
  }

  /** Versions that `migrate()` would apply. */
  pendingMigrations(): Promise<readonly number[]> {
    return missing(this.#driver, this.#tables);
  }

  /** All migrations as one SQL script, for people who run it by hand. */
  migrationSql(): string {
    return migrationSql(this.#tables);
  }

  // The pool is the caller's, and so is its end.
  async close(): Promise<void> {}
}

function positionsOn<Tx>(driver: Driver<Tx>, tables: Tables, ready: () => Promise<void>): Positions {
  const table = tables.quoted.positions;
  return {
    async load(consumer, lane) {
      await ready();
      const rows = await driver.query({
        name: '',
        text: `SELECT position FROM ${table} WHERE consumer = $1 AND lane = $2`,
        values: [consumer, lane],
      });
      return rows[0]?.position as string | undefined;
    },
    async save(consumer, lane, position) {
      await ready();
      await driver.query({
        name: '',
        text: `INSERT INTO ${table} (consumer, lane, position) VALUES ($1, $2, $3) ON CONFLICT (consumer, lane) DO UPDATE SET position = excluded.position`,
        values: [consumer, lane, position],
      });
    },
  };
}
