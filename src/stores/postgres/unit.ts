import { classifyFailure, failureCode } from '../../core/failures.ts';
import type { LaneMove } from '../../ports/lanes.ts';
import type { OutboxRow } from '../../ports/outbox.ts';
import type { Sql } from '../../ports/sql.ts';
import { type Answer, type Claim, Contended, type DeadLetter, type Unit } from '../../ports/store.ts';
import { refuseUndefined, templateText } from '../sql/template.ts';
import type { OpenTransaction, Row } from './driver.ts';
import type { AddStatements } from './outbox/add.ts';
import { PendingOutbox } from './outbox/pending.ts';
import { Savepoints } from './savepoints.ts';
import { type Statements, utf8Hex } from './statements.ts';

const FRESH: Answer = { answer: 'fresh' };

/** One open transaction that has claimed, on PostgreSQL. */
export class PostgresUnit<Tx> implements Unit<Tx> {
  readonly fresh: readonly boolean[];
  readonly sql: Sql;
  readonly #open: OpenTransaction<Tx>;
  readonly #statements: Statements;
  readonly #consumer: number;
  readonly #claims: readonly Claim[];
  readonly #savepoints: Savepoints;
  readonly #adding: AddStatements;
  #pending: PendingOutbox | undefined;
  #lookedUp: Promise<readonly Answer[]> | undefined;

  constructor(
    open: OpenTransaction<Tx>,
    statements: Statements,
    consumer: number,
    claims: readonly Claim[],
    first: readonly Row[],
    adding: AddStatements,
  ) {
    this.#open = open;
    this.#statements = statements;
    this.#consumer = consumer;
    this.#claims = claims;
    this.#adding = adding;
    this.sql = sqlOn(open);
    this.#savepoints = new Savepoints(open);
    const inserted = freshKeys(first);
    this.fresh = claims.map(claim => inserted.has(claim.hex));
  }

  get tx(): Tx {
    return this.#open.tx;
  }

  get used(): number {
    return this.#open.guard.used;
  }

  get failure(): unknown {
    return this.#open.guard.firstFailure?.error;
  }

  get savepoints(): number {
    return this.#open.guard.savepoints;
  }

  answers(): Promise<readonly Answer[]> {
    this.#lookedUp ??= this.#lookUp();
    return this.#lookedUp;
  }

  async #lookUp(): Promise<readonly Answer[]> {
    const known = this.#claims.filter((_, i) => !this.fresh[i]).map(claim => claim.hex);
    if (known.length === 0) return this.#claims.map(() => FRESH);
    const rows = await this.#open.query(this.#statements.lookup(this.#consumer, known));
    const found = new Map(rows.map(row => [row.key as string, row]));
    return this.#claims.map((claim, i) => (this.fresh[i] ? FRESH : answerFrom(claim, found.get(claim.hex))));
  }

  async unclaim(indexes: readonly number[]): Promise<void> {
    // A row that was there before says that the message is done; it is not this transaction's to take away.
    const keys = indexes.filter(i => this.fresh[i]).map(i => this.#claims[i]!.hex);
    if (keys.length === 0) return;
    await this.#open.query(this.#statements.unclaim(this.#consumer, keys));
  }

  async deadLetter(letters: readonly DeadLetter[]): Promise<void> {
    if (letters.length === 0) return;
    await this.#open.query(this.#statements.deadLetter(this.#consumer, lettersJson(letters)));
  }

  async holdLetter(id: string): Promise<boolean> {
    return (await this.#open.query(this.#statements.holdLetter(this.#consumer, id))).length > 0;
  }

  async closeLetter(id: string): Promise<void> {
    await this.#open.query(this.#statements.closeLetter(this.#consumer, id));
  }

  async blockedKeys(keys: readonly string[]): Promise<ReadonlySet<string>> {
    if (keys.length === 0) return new Set();
    const rows = await this.#open.query(
      this.#statements.blockedKeys(
        this.#consumer,
        keys.map(key => readable(key) ?? ''),
      ),
    );
    const hex = new Set(rows.map(row => row.key as string));
    return new Set(keys.filter(key => hex.has(utf8Hex(readable(key) ?? ''))));
  }

  addToOutbox(make: () => OutboxRow): Promise<void> {
    this.#pending ??= new PendingOutbox(this.#open, this.#adding);
    return this.#pending.add(make);
  }

  async sealOutbox(): Promise<void> {
    await (this.#open.joined ? this.#pending?.write() : this.#pending?.commitWith());
  }

  get outboxClashes(): number {
    return this.#pending?.leftOut ?? 0;
  }

  /** True when something was added. */
  get hasAdded(): boolean {
    return this.#pending !== undefined && this.#pending.added > 0;
  }

  async advance(move: LaneMove): Promise<void> {
    this.#open.commitBehind(this.#statements.advance(this.#consumer, move));
  }

  savepoint<R>(work: () => Promise<R>): Promise<R> {
    return this.#savepoints.run(work);
  }

  nextMessage(): void {
    this.#open.guard.nextMessage();
  }

  abandon(reason: unknown): void {
    this.#open.abandon(reason);
  }
}

function freshKeys(first: readonly Row[]): ReadonlySet<string> {
  const list = first[0]?.fresh;
  return new Set(typeof list === 'string' && list !== '' ? list.split(',') : []);
}

function answerFrom(claim: Claim, row: Row | undefined): Answer {
  // The row that refused our insert is gone again: somebody deleted it in between. Only a new claim can tell.
  if (row === undefined) return { answer: 'busy' };
  const stored = row.fp as string | null;
  if (stored && claim.fingerprint !== undefined && stored !== claim.fingerprint) {
    return { answer: 'conflict', stored, offered: claim.fingerprint };
  }
  return { answer: 'duplicate', at: new Date(Number(row.at)) };
}

export function sqlOn<Tx>(open: OpenTransaction<Tx>): Sql {
  // No `async` function: the promise it made around this one would end the process when a failed statement is not awaited.
  return ((strings: TemplateStringsArray, ...values: unknown[]) => {
    try {
      const { text, name } = templateText(strings, 'numbered');
      refuseUndefined(values, text);
      return open.guard.track(text, () => open.query({ text, name, values: values as (string | number | null)[] }));
    } catch (error) {
      return open.guard.refuse(error);
    }
  }) as Sql;
}

// PostgreSQL's text holds neither NUL nor half a surrogate pair; the payload keeps every byte, so only the readable
// copies lose them.
export const readable = (text: string | undefined) => text?.toWellFormed().replaceAll('\0', '\uFFFD') ?? null;

function lettersJson(letters: readonly DeadLetter[]): string {
  return JSON.stringify(
    letters.map(letter => ({
      dedupe: letter.dedupe,
      messageId: readable(letter.messageId),
      kind: letter.kind,
      reason: readable(letter.reason),
      attempts: letter.attempts,
      lane: readable(letter.lane),
      position: readable(letter.position),
      type: readable(letter.type),
      key: readable(letter.key),
      time: letter.time === undefined ? null : letter.time.getTime(),
      headers: readable(JSON.stringify(letter.headers)),
      payload: Buffer.from(letter.payload).toString('hex'),
      failure: letter.failure ?? null,
      errors: letter.errors === undefined ? null : readable(JSON.stringify(letter.errors)),
      asJson: letter.asJson ?? null,
      sealed: letter.sealed ?? null,
    })),
  );
}

/**
 * A claim that waited out its bound has cost the transaction; that is an answer, not a failure. The bound may also be the
 * session's own: a statement_timeout (57014) below ours, or one that a large batch runs into.
 */
export function claimError(error: unknown): unknown {
  const waited = classifyFailure(error) === 'contended' || failureCode(error) === '57014';
  return waited ? new Contended(error) : error;
}
