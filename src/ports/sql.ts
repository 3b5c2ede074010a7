/**
 * Runs one statement on the open transaction and returns its rows. Values become parameters, never text:
 *
 *     await sql`UPDATE wallet SET balance_cents = balance_cents + ${amount} WHERE customer_id = ${customer}`
 *
 * The same on SQLite and PostgreSQL; the SQL itself is the database's own dialect.
 */
export type Sql = <Row = Record<string, unknown>>(
  text: TemplateStringsArray,
  ...values: unknown[]
) => Promise<readonly Row[]>;
