import { NevertwiceError } from '../errors.ts';
import type { Sql } from '../ports/sql.ts';
import { quoteIdentifier } from '../stores/sql/identifiers.ts';

/** A second layer behind the inbox: what an entity has seen last, in the transaction of the effect. */
export interface Guard<Mark> {
  /** Creates its table where it is missing; call it in a consumer's `setup`. */
  setup(sql: Sql): Promise<void>;
  /**
   * True when the effect may happen; the mark is the entity's last one then, and commits with the effect. False: skip it. Until the
   * transaction ends, another one that asks for the same entity waits.
   */
  accepts(sql: Sql, entity: string, mark: Mark): Promise<boolean>;
}

/**
 * Accepts only what is newer than all before, by a version that the producer counts up per entity. Refuses copies however late
 * they come, also when the inbox has forgotten them, and what was overtaken: the effect must be the entity's new state, and not a
 * change to it (a payment that was overtaken would be lost).
 *
 * `table`: the name of its own table, one guard each. Versions are whole numbers below 2^63.
 */
export function versionGuard(table = 'entity_versions'): Guard<number | bigint> {
  const name = quoteIdentifier(table);
  const create = statement(
    `CREATE TABLE IF NOT EXISTS ${name} (entity varchar(1000) NOT NULL PRIMARY KEY, version bigint NOT NULL)`,
  );
  const accept = statement(
    `INSERT INTO ${name} AS g (entity, version) VALUES (`,
    ', ',
    ') ON CONFLICT (entity) DO UPDATE SET version = excluded.version WHERE g.version < excluded.version RETURNING entity',
  );
  return {
    setup: async sql => void (await sql(create)),
    async accepts(sql, entity, version) {
      return (await sql(accept, entity, wholeNumber(version))).length > 0;
    },
  };
}

/**
 * Refuses the event that the entity has seen **last**, and no other. It catches what is delivered twice in a row when the inbox was
 * bypassed, and lets A, B, A through: A happens twice. With a version that the producer counts, take `versionGuard`.
 */
export function lastEventGuard(table = 'entity_last_events'): Guard<string> {
  const name = quoteIdentifier(table);
  const create = statement(
    `CREATE TABLE IF NOT EXISTS ${name} (entity varchar(1000) NOT NULL PRIMARY KEY, event_id varchar(1000) NOT NULL)`,
  );
  const accept = statement(
    `INSERT INTO ${name} AS g (entity, event_id) VALUES (`,
    ', ',
    ') ON CONFLICT (entity) DO UPDATE SET event_id = excluded.event_id WHERE g.event_id <> excluded.event_id RETURNING entity',
  );
  return {
    setup: async sql => void (await sql(create)),
    async accepts(sql, entity, eventId) {
      return (await sql(accept, entity, eventId)).length > 0;
    },
  };
}

/** A template of which a name is part, made once so that the statement stays prepared. */
function statement(...parts: readonly string[]): TemplateStringsArray {
  return Object.freeze(Object.assign([...parts], { raw: parts })) as TemplateStringsArray;
}

function wholeNumber(version: number | bigint): bigint {
  if (
    typeof version === 'bigint' ? version >= 0n && version < 2n ** 63n : Number.isSafeInteger(version) && version >= 0
  )
    return BigInt(version);
  throw new NevertwiceError(
    'NT_CONFIG',
    'a version must be a whole number from 0 to 2^63 − 1, as a number or a bigint',
  );
}
