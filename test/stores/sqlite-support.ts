import type { Claim, DeadLetter, TransactionalInbox } from '../../src/ports/store.ts';
import { type SqliteDatabase, type SqliteOptions, sqliteStore } from '../../src/stores/sqlite/index.ts';
import { type ClientDatabase, clients, temporaryFile } from './sqlite-clients.ts';

export const budget = { budgetMs: 10_000, overlap: false } as const;

export function claimOf(id: string, fingerprint?: string): Claim {
  const key = Buffer.concat([Buffer.of(2), Buffer.from(id)]);
  return { key, hex: key.toString('hex'), fingerprint };
}

export function letterOf(dedupe: string, changes: Partial<DeadLetter> = {}): DeadLetter {
  return {
    messageId: 'm1',
    dedupe,
    reason: 'first reason',
    kind: 'attempts',
    attempts: 3,
    lane: 'payments/0',
    position: 'payments/0/17',
    type: undefined,
    key: undefined,
    time: undefined,
    headers: [['message-id', 'm1']],
    payload: Buffer.from('{}'),
    ...changes,
  };
}

/** A store on a file of its own by one of the clients, with a table `wallet` and the consumer `ledger` opened. */
export async function walletOn(client: string, options: SqliteOptions = {}): Promise<Wallet> {
  const { path, remove } = temporaryFile();
  const database = clients[client]!(path);
  database.exec('CREATE TABLE wallet (id INTEGER PRIMARY KEY, note TEXT UNIQUE, amount)');
  const store = sqliteStore<SqliteDatabase>(database, options);
  const inbox = await store.open({ name: 'ledger', signature: 's/1' });
  return {
    path,
    database,
    store,
    inbox,
    amounts: () =>
      database
        .prepare('SELECT amount FROM wallet ORDER BY id')
        .all()
        .map(row => (row as { amount: number }).amount),
    [Symbol.asyncDispose]: async () => {
      await store.close();
      database.close();
      remove();
    },
  };
}

export interface Wallet extends AsyncDisposable {
  readonly path: string;
  readonly database: ClientDatabase;
  readonly store: ReturnType<typeof sqliteStore<SqliteDatabase>>;
  readonly inbox: TransactionalInbox<SqliteDatabase>;
  amounts(): unknown[];
}
