import { NevertwiceError } from '../../errors.ts';
import type { Claim, ConsumerRegistration, TransactionalInbox, TransactionOptions, Unit } from '../../ports/store.ts';
import { NOW } from './claims.ts';
import type { Connection } from './connection.ts';
import type { Names } from './options.ts';
import type { TransactionRunner } from './runner.ts';
import { type Scope, SqliteUnit } from './unit.ts';

/** The inbox of one consumer. A claim is never contended here: the write lock is taken at BEGIN. */
export class SqliteInbox<Tx> implements TransactionalInbox<Tx> {
  readonly #scope: Scope<Tx>;
  readonly #runner: TransactionRunner;
  readonly #connection: () => Promise<Connection>;
  readonly #callers: (tx: Tx) => Promise<Connection>;
  readonly #added: () => void;

  constructor(
    scope: Scope<Tx>,
    runner: TransactionRunner,
    connections: {
      /** The store's own. */
      readonly own: () => Promise<Connection>;
      /** That of a handle on which the caller has begun. */
      readonly callers: (tx: Tx) => Promise<Connection>;
    },
    added: () => void,
  ) {
    this.#scope = scope;
    this.#runner = runner;
    this.#connection = connections.own;
    this.#callers = connections.callers;
    this.#added = added;
  }

  async transaction<R>(
    claims: readonly Claim[],
    options: TransactionOptions,
    work: (unit: Unit<Tx>) => Promise<R>,
  ): Promise<R> {
    let unit: SqliteUnit<Tx> | undefined;
    const result = await this.#runner.run(await this.#connection(), options, open => {
      unit = new SqliteUnit(this.#scope, open, claims);
      return work(unit);
    });
    if (unit?.hasAdded) this.#added();
    return result;
  }

  async within<R>(tx: Tx, claims: readonly Claim[], work: (unit: Unit<Tx>) => Promise<R>): Promise<R> {
    return this.#runner.within(await this.#callers(tx), open => work(new SqliteUnit(this.#scope, open, claims)));
  }
}

/** Registers the consumer in the open transaction, or checks the one that is there. Returns its number. */
export function registerConsumer(connection: Connection, names: Names, consumer: ConsumerRegistration): bigint {
  const table = names.quoted.consumers;
  connection.run(
    `INSERT INTO ${table} (name, signature, created_at) VALUES (?, ?, ${NOW}) ON CONFLICT DO NOTHING`,
    consumer.name,
    consumer.signature,
  );
  const [row] = connection.all<{ id: number; signature: string }>(
    `SELECT id, signature FROM ${table} WHERE name = ?`,
    consumer.name,
  );
  if (row?.signature !== consumer.signature) {
    throw new NevertwiceError(
      'NT_CONFIG',
      `consumer "${consumer.name}" made its ids as "${row?.signature}" so far and is now set to "${consumer.signature}": everything in flight would be done twice; keep the identity, or take a new consumer name`,
    );
  }
  return BigInt(row.id);
}
