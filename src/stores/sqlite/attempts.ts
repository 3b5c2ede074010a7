import type { Attempts } from '../../ports/attempts.ts';
import { NOW } from './claims.ts';
import type { Access } from './letters.ts';
import type { Names } from './options.ts';

/** Each in a transaction of its own. */
export function sqliteAttempts({ quoted }: Names, { write }: Pick<Access, 'write'>): Attempts {
  const { attempts, laneOwners, consumers } = quoted;
  const id = `(SELECT id FROM ${consumers} WHERE name = ?)`;
  return {
    enter: (consumer, lane, owner) =>
      write(connection => {
        const before = `SELECT owner FROM ${laneOwners} WHERE consumer = ${id} AND lane = ?`;
        const [row] = connection.all<{ owner: string }>(before, consumer, lane);
        const enter = `INSERT INTO ${laneOwners} (consumer, lane, owner, at) SELECT id, ?, ?, ${NOW} FROM ${consumers} WHERE name = ?
          ON CONFLICT (consumer, lane) DO UPDATE SET owner = excluded.owner, at = excluded.at`;
        connection.run(enter, lane, owner, consumer);
        return row?.owner;
      }),
    leave: (consumer, lane, owner) =>
      write(connection => {
        const leave = `DELETE FROM ${laneOwners} WHERE consumer = ${id} AND lane = ? AND owner = ?`;
        connection.run(leave, consumer, lane, owner);
      }),
    begin: (consumer, key) =>
      write(connection => {
        const bytes = Buffer.from(key, 'hex');
        const begin = `INSERT INTO ${attempts} (consumer, key, tries, at) SELECT id, ?, 1, ${NOW} FROM ${consumers} WHERE name = ?
          ON CONFLICT (consumer, key) DO UPDATE SET tries = tries + 1, at = excluded.at`;
        connection.run(begin, bytes, consumer);
        const tries = `SELECT tries FROM ${attempts} WHERE consumer = ${id} AND key = ?`;
        return Number(connection.all<{ tries: number }>(tries, consumer, bytes)[0]?.tries ?? 1);
      }),
    end: (consumer, key) =>
      write(connection => {
        const end = `DELETE FROM ${attempts} WHERE consumer = ${id} AND key = ?`;
        connection.run(end, consumer, Buffer.from(key, 'hex'));
      }),
  };
}
