import { createHash } from 'node:crypto';

/** A Lua script: one atomic operation. All its keys lie in one hash slot. */
export interface Script {
  /** SHA-1 of the source, by which a server that has seen it runs it. */
  readonly sha: string;
  readonly source: string;
}

export function script(source: string): Script {
  return { sha: createHash('sha1').update(source).digest('hex'), source };
}

/**
 * The server's clock, in Lua, as `now` (milliseconds) and `micros`; both are whole and far below 2^53. `text` writes such
 * a number, which Lua's own conversion would give as 1.7e+15.
 */
export const CLOCK = `
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)
local function text(number) return string.format('%.0f', number) end
`;
