import { script } from './script.ts';

/**
 * Marks a lane as in work. KEYS: the hash of owners. ARGV: lane, owner. Reply: the owner before whose mark is still there, or nil.
 */
export const enterLane = script(`
local before = redis.call('HGET', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return before
`);

/** Takes a mark away if it is still this owner's. KEYS and ARGV: the same. */
export const leaveLane = script(`
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then redis.call('HDEL', KEYS[1], ARGV[1]) end
return 1
`);
