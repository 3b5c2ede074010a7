import { NevertwiceError } from '../../errors.ts';
import type { Connection } from './connection.ts';

const OLDEST = [6, 2] as const;

/** Refuses servers on which the store's promise would not hold. Throws NT_CONFIG. */
export async function checkServer(connection: Connection, allowEviction: boolean): Promise<void> {
  for (const info of await connection.info('server')) {
    const version = field(info, 'redis_version') ?? 'unknown';
    const [major = 0, minor = 0] = version.split('.').map(Number);
    if (!(major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1]))) {
      throw new NevertwiceError('NT_CONFIG', `Redis ${version} is too old; ${OLDEST.join('.')} or newer is needed`);
    }
  }
  if (allowEviction) return;
  for (const info of await connection.info('memory')) {
    const policy = field(info, 'maxmemory_policy') ?? 'not shown';
    if (policy === 'noeviction') continue;
    throw new NevertwiceError(
      'NT_CONFIG',
      `Redis has maxmemory-policy ${policy}: under memory pressure it drops keys, and with them the memory of what was done; set noeviction, or allow it with allowEviction: true`,
    );
  }
}

/** Keys that all servers have evicted since their start. */
export async function evictedKeys(connection: Connection): Promise<number> {
  const counts = (await connection.info('stats')).map(info => Number(field(info, 'evicted_keys') ?? 0));
  return counts.reduce((sum, count) => sum + count, 0);
}

function field(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1];
}
