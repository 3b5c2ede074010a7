import { DatabaseSync } from 'node:sqlite';
import { Client } from 'pg';
import type { Kind } from './plan.ts';
import { type Credit, isRefused } from './wallet-sql.ts';

/** What was sent, as the producer knows it: the truth that the database is held against. */
export type Expected = ReadonlyMap<string, Credit>;

/** Reads the tables after all processes have ended and says, one line each, what is wrong; empty when all is right. */
export async function faults(kind: Kind, target: string, expected: Expected): Promise<readonly string[]> {
  const read = kind === 'postgres' ? await readPostgres(target) : readSqlite(target);
  const found: string[] = [];
  const effects = new Map<string, number>();
  for (const id of read.ledger) effects.set(id, (effects.get(id) ?? 0) + 1);
  const inbox = new Set(read.inbox);
  const letters = new Map<string, number>();
  for (const id of read.deadLetters) letters.set(id, (letters.get(id) ?? 0) + 1);

  for (const [id, credit] of expected) {
    const times = effects.get(id) ?? 0;
    const right = isRefused(credit) ? 0 : 1;
    if (times !== right) found.push(`${id}: its effect happened ${times} times and should ${right} times`);
    const aside = letters.get(id) ?? 0;
    if (aside !== 1 - right) found.push(`${id}: there are ${aside} dead letters of it and should be ${1 - right}`);
    if (times > 0 && !inbox.has(id)) found.push(`${id}: has an effect and is not in the inbox`);
    if (times === 0 && inbox.has(id)) found.push(`${id}: is in the inbox and has no effect`);
  }
  for (const id of new Set([...effects.keys(), ...inbox, ...letters.keys()])) {
    if (!expected.has(id)) found.push(`${id}: was never sent`);
  }
  const sums = new Map<string, number>();
  for (const { wallet, cents } of expected.values()) sums.set(wallet, (sums.get(wallet) ?? 0) + cents);
  for (const wallet of new Set([...sums.keys(), ...read.wallets.keys()])) {
    const [right, is] = [sums.get(wallet) ?? 0, read.wallets.get(wallet) ?? 0];
    if (right !== is) found.push(`${wallet}: holds ${is} cents and should hold ${right}`);
  }
  return found;
}

interface Tables {
  readonly ledger: readonly string[];
  readonly inbox: readonly string[];
  readonly wallets: ReadonlyMap<string, number>;
  readonly deadLetters: readonly string[];
}

const LEDGER = 'SELECT message_id AS id FROM ledger';
const DEAD_LETTERS = 'SELECT message_id AS id FROM';
const WALLETS = 'SELECT id, cents FROM wallet';

async function readPostgres(url: string): Promise<Tables> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const rows = async (text: string) => (await client.query(text)).rows;
    return tables({
      ledger: await rows(LEDGER),
      wallets: await rows(WALLETS),
      inbox: await rows('SELECT message_id AS id FROM nevertwice.inbox_readable'),
      deadLetters: await rows(`${DEAD_LETTERS} nevertwice.dead_letters`),
    });
  } finally {
    await client.end();
  }
}

function readSqlite(file: string): Tables {
  const database = new DatabaseSync(file);
  try {
    const rows = (text: string) => database.prepare(text).all() as Record<string, unknown>[];
    return tables({
      ledger: rows(LEDGER),
      wallets: rows(WALLETS),
      inbox: rows('SELECT id FROM nevertwice_inbox_readable'),
      deadLetters: rows(`${DEAD_LETTERS} nevertwice_dead_letters`),
    });
  } finally {
    database.close();
  }
}

function tables(rows: Record<keyof Tables, readonly Record<string, unknown>[]>): Tables {
  return {
    ledger: rows.ledger.map(row => String(row.id)),
    inbox: rows.inbox.map(row => String(row.id)),
    wallets: new Map(rows.wallets.map(row => [String(row.id), Number(row.cents)])),
    deadLetters: rows.deadLetters.map(row => String(row.id)),
  };
}
