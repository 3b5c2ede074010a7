/** What most of these handlers are given: one payment into a wallet, and a table for the ids that have been seen. */
export const fixture = {
  message: { id: 'm1', account: 'alice', amount: 5 },
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);
    CREATE TABLE processed (id text PRIMARY KEY);`,
  seed: `INSERT INTO wallet VALUES ('alice', 100)`,
};
