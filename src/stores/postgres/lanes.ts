import { NevertwiceError } from '../../errors.ts';
import type { LaneRow, LaneRows } from '../../ports/lanes.ts';
import { aloneOn } from './alone.ts';
import type { Driver, Row } from './driver.ts';
import type { Tables } from './tables.ts';

/** Statements on lanes outside a batch. Each is one statement, so that what it returns is what it has locked. */
export function lanesOn<Tx>(driver: Driver<Tx>, t: Tables, ready: () => Promise<void>): LaneRows {
  const { lanes, consumers } = t.quoted;
  const columns = 'lane, epoch::text AS epoch, position::text AS position, log, mark, begin_at';
  const ofConsumer = `consumer = (SELECT id FROM ${consumers} WHERE name = $1)`;
  const run = aloneOn(driver, ready, "a lane's row");
  return {
    async raise(consumer, lane) {
      const [row] = await run(
        `INSERT INTO ${lanes} AS l (consumer, lane, epoch) SELECT id, $2, 1 FROM ${consumers} WHERE name = $1
ON CONFLICT (consumer, lane) DO UPDATE SET epoch = l.epoch + 1, at = now() RETURNING ${columns}`,
        consumer,
        lane,
      );
      if (row === undefined) {
        throw new NevertwiceError(
          'NT_SCHEMA',
          `the store no longer knows consumer ${JSON.stringify(consumer)}, as after a failover that lost its registration; start it again`,
        );
      }
      return rowFrom(row);
    },
    async reraise(consumer, lane, epoch) {
      const [row] = await run(
        `UPDATE ${lanes} SET epoch = epoch + 1, at = now() WHERE ${ofConsumer} AND lane = $2 AND epoch = $3::bigint RETURNING ${columns}`,
        consumer,
        lane,
        String(epoch),
      );
      return row === undefined ? undefined : rowFrom(row);
    },
    async begin(consumer, lane, epoch, { position, log, mark }) {
      const begun = await run(
        `UPDATE ${lanes} SET position = $4::bigint, log = $5, mark = $6, begin_at = NULL, at = now()
WHERE ${ofConsumer} AND lane = $2 AND epoch = $3::bigint RETURNING 1`,
        consumer,
        lane,
        String(epoch),
        String(position),
        log,
        mark ?? null,
      );
      return begun.length > 0;
    },
    async list(consumer) {
      return (await run(`SELECT ${columns} FROM ${lanes} WHERE ${ofConsumer} ORDER BY lane`, consumer)).map(rowFrom);
    },
    async order(consumer, lane, beginAt) {
      const ordered = await run(
        `UPDATE ${lanes} SET begin_at = $3, epoch = epoch + 1, at = now() WHERE ${ofConsumer} AND lane = $2 RETURNING 1`,
        consumer,
        lane,
        beginAt,
      );
      return ordered.length > 0;
    },
  };
}

function rowFrom(row: Row): LaneRow {
  return {
    lane: row.lane as string,
    epoch: BigInt(row.epoch as string),
    position: row.position === null ? undefined : BigInt(row.position as string),
    log: (row.log as string | null) ?? undefined,
    mark: (row.mark as string | null) ?? undefined,
    beginAt: (row.begin_at as string | null) ?? undefined,
  };
}
