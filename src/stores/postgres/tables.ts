import { createHash } from 'node:crypto';
import { NevertwiceError } from '../../errors.ts';
import { quoteIdentifier } from '../sql/identifiers.ts';

export type TableName =
  | 'inbox'
  | 'consumers'
  | 'deadLetters'
  | 'positions'
  | 'lanes'
  | 'outbox'
  | 'relays'
  | 'effects'
  | 'attempts'
  | 'laneOwners'
  | 'migrations';

export interface NamingOptions {
  /** Schema that holds the tables. Default `nevertwice`. Created by the first migration when it is missing. */
  readonly schema?: string;
  /**
   * Other names for single tables; the defaults are `inbox`, `consumers`, `dead_letters`, `positions`, `lanes`, `outbox`,
   * `outbox_relays`, `effects`, `attempts`, `lane_owners`, `migrations`.
   */
  readonly tables?: Partial<Record<TableName, string>>;
}

/** Qualified and quoted names, and the bare ones for catalog queries. */
export interface Tables {
  readonly schema: string;
  readonly quotedSchema: string;
  readonly bare: Readonly<Record<TableName, string>>;
  readonly quoted: Readonly<Record<TableName, string>>;
  /** The view that shows ids readably: the inbox's name with `_readable`. */
  readonly readable: string;
  /** Indexes of the dead letters, unqualified: an index lies where its table does. */
  readonly openIndex: string;
  readonly keyIndex: string;
  /** Of the outbox. */
  readonly parkedIndex: string;
}

const DEFAULTS: Readonly<Record<TableName, string>> = {
  inbox: 'inbox',
  consumers: 'consumers',
  deadLetters: 'dead_letters',
  positions: 'positions',
  lanes: 'lanes',
  outbox: 'outbox',
  relays: 'outbox_relays',
  effects: 'effects',
  attempts: 'attempts',
  laneOwners: 'lane_owners',
  migrations: 'migrations',
};

export function tablesFrom(options: NamingOptions = {}): Tables {
  const schema = options.schema ?? 'nevertwice';
  const quotedSchema = quoteIdentifier(schema);
  const bare = { ...DEFAULTS, ...options.tables };
  const readable = derived(bare.inbox, 'readable');
  const [openIndex, keyIndex] = [derived(bare.deadLetters, 'open'), derived(bare.deadLetters, 'key')];
  const parkedIndex = derived(bare.outbox, 'parked');
  const names = [...Object.values(bare), readable, openIndex, keyIndex, parkedIndex];
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) {
    throw new NevertwiceError(
      'NT_CONFIG',
      `two tables of the store are named ${JSON.stringify(twice)}; give each its own`,
    );
  }
  const qualify = (name: string) => `${quotedSchema}.${quoteIdentifier(name)}`;
  return {
    schema,
    quotedSchema,
    bare,
    quoted: {
      inbox: qualify(bare.inbox),
      consumers: qualify(bare.consumers),
      deadLetters: qualify(bare.deadLetters),
      positions: qualify(bare.positions),
      lanes: qualify(bare.lanes),
      outbox: qualify(bare.outbox),
      relays: qualify(bare.relays),
      effects: qualify(bare.effects),
      attempts: qualify(bare.attempts),
      laneOwners: qualify(bare.laneOwners),
      migrations: qualify(bare.migrations),
    },
    readable: qualify(readable),
    openIndex: quoteIdentifier(openIndex),
    keyIndex: quoteIdentifier(keyIndex),
    parkedIndex: quoteIdentifier(parkedIndex),
  };
}

const MAX_NAME_BYTES = 63;

/** `name_suffix`; where that is too long, as much of the name as fits and a digest, since the server would cut it silently. */
function derived(name: string, suffix: string): string {
  const plain = `${name}_${suffix}`;
  if (Buffer.byteLength(plain) <= MAX_NAME_BYTES) return plain;
  const end = `_${createHash('sha256').update(name).digest('hex').slice(0, 8)}_${suffix}`;
  let start = name;
  while (Buffer.byteLength(start + end) > MAX_NAME_BYTES) start = [...start].slice(0, -1).join('');
  return start + end;
}
