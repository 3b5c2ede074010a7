// Holds the write lock of a SQLite file until its standard input ends.
import { DatabaseSync } from 'node:sqlite';

const database = new DatabaseSync(process.argv[2]!, { timeout: 5_000 });
database.exec('BEGIN IMMEDIATE');
console.log('locked');
process.stdin.resume().on('end', () => {
  database.exec('ROLLBACK');
  database.close();
});
