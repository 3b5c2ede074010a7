import type { Sql, Store } from '../../src/index.ts';
import { memoryStore } from '../../src/memory.ts';
import { backends, type WalletStore } from '../support/wallet.ts';
import { viewOf } from './lease-view.ts';

/** A dead letter as a person would see it. */
export interface Letter {
  readonly id: string | undefined;
  readonly kind: string;
  readonly reason: string;
  readonly attempts: number;
  readonly position: string | undefined;
  readonly payload: string;
}

/** An account of one test. */
export interface Wallet {
  /** Through the handler's own context where the store has transactions; otherwise the effect lives elsewhere. */
  credit(context: unknown, amount: number): Promise<void>;
  balance(): Promise<number>;
}

/** Any store, the lease store included, with what a test wants to know about it. */
export interface AnyStore {
  /** Of the database, or of the lease store. */
  readonly name: string;
  readonly store: Store;
  /** Another store object on the same data, like a second process. */
  another(): Store;
  wallet(): Promise<Wallet>;
  /** Open dead letters of a consumer, oldest first. */
  deadLetters(consumer: string): Promise<readonly Letter[]>;
  /** Ids that the consumer has done. */
  done(consumer: string): Promise<number>;
  drop(): Promise<void>;
}

/** All stores: what is decided about a message must be the same on each. */
export const allStores: readonly { readonly name: string; create(): Promise<AnyStore> }[] = [
  ...backends.map(({ name, create }) => ({
    name,
    create: async () => onSql(await create(), name.startsWith('SQLite')),
  })),
  { name: 'memory', create: async () => inMemory() },
];

let names = 0;

/** A consumer name that no other test has, so that tests can share a database. */
export function freshName(what = 'pay'): string {
  return `${what}-${++names}`;
}

function onSql(w: WalletStore, sqlite: boolean): AnyStore {
  const letters = sqlite
    ? [
        'SELECT message_id, kind, reason, attempts, position, hex(payload) AS payload FROM nevertwice_dead_letters',
        'nevertwice_consumers',
      ]
    : [
        "SELECT message_id, kind, reason, attempts, position, encode(payload, 'hex') AS payload FROM nevertwice.dead_letters",
        'nevertwice.consumers',
      ];
  const [before, after] = [
    `${letters[0]} WHERE closed_at IS NULL AND consumer = (SELECT id FROM ${letters[1]} WHERE name = `,
    ') ORDER BY id',
  ];
  return {
    name: sqlite ? 'SQLite' : 'PostgreSQL',
    store: w.store,
    another: () => w.another(),
    async wallet() {
      const account = freshName('account');
      await w.sql`INSERT INTO wallet (account, balance) VALUES (${account}, 0)`;
      return {
        credit: async (context, amount) => {
          const { sql } = context as { sql: Sql };
          await sql`UPDATE wallet SET balance = balance + ${amount} WHERE account = ${account}`;
        },
        balance: () => w.balance(account),
      };
    },
    async deadLetters(consumer) {
      const text = Object.assign([before, after], { raw: [before, after] }) as unknown as TemplateStringsArray;
      const rows = await w.sql<Record<string, string | null>>(text, consumer);
      return rows.map(row => ({
        id: row.message_id ?? undefined,
        kind: row.kind!,
        reason: row.reason!,
        attempts: Number(row.attempts),
        position: row.position ?? undefined,
        payload: Buffer.from(row.payload!, 'hex').toString(),
      }));
    },
    done: consumer => doneOn(w.store, consumer),
    drop: () => w.drop(),
  };
}

function inMemory(): AnyStore {
  const store = memoryStore();
  return {
    name: 'memory',
    store,
    another: () => viewOf(store),
    async wallet() {
      let balance = 0;
      return {
        credit: async (_, amount) => {
          balance += amount;
        },
        balance: async () => balance,
      };
    },
    deadLetters: async consumer =>
      store.deadLetters(consumer).map(letter => ({
        id: letter.messageId,
        kind: letter.kind,
        reason: letter.reason,
        attempts: letter.attempts,
        position: letter.position,
        payload: Buffer.from(letter.payload).toString(),
      })),
    done: consumer => doneOn(store, consumer),
    drop: () => store.close(),
  };
}

async function doneOn(store: Store, consumer: string): Promise<number> {
  return (await store.stats()).find(counts => counts.consumer === consumer)?.processed ?? 0;
}
