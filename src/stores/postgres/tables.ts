import { quoteIdentifier } from '../sql/identifiers.ts';

export type TableName = 'inbox' | 'consumers' | 'deadLetters' | 'positions' | 'migrations';

export interface NamingOptions {
  /** Schema that holds the tables. Default `nevertwice`. Created by the first migration when it is missing. */
  readonly schema?: string;
  /** Other names for single tables; the defaults are `inbox`, `consumers`, `dead_letters`, `positions`, `migrations`. */
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
}

const DEFAULTS: Readonly<Record<TableName, string>> = {
  inbox: 'inbox',
  consumers: 'consumers',
  deadLetters: 'dead_letters',
  positions: 'positions',
  migrations: 'migrations',
};

export function tablesFrom(options: NamingOptions = {}): Tables {
  const schema = options.schema ?? 'nevertwice';
  const quotedSchema = quoteIdentifier(schema);
  const bare = { ...DEFAULTS, ...options.tables };
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
      migrations: qualify(bare.migrations),
    },
    readable: qualify(`${bare.inbox}_readable`),
  };
}
