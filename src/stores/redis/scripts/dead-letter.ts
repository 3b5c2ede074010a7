import { CLOCK, script } from './script.ts';

/**
 * Writes dead letters. A copy of one takes its place, also in the order of age.
 *
 * KEYS: the hash of letters, dedupe → `<age in µs> <JSON>`; that of their keys, dedupe → key; and key → how many letters.
 * ARGV: for each letter its dedupe, JSON, and key as JSON ('' for none).
 */
export const deadLetter = script(`${CLOCK}
local letters, keys, blocked = KEYS[1], KEYS[2], KEYS[3]
for i = 1, #ARGV, 3 do
  local dedupe, letter, key = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local last = redis.call('HGET', letters, dedupe)
  local age = last and string.match(last, '^%d+') or text(micros + i)
  redis.call('HSET', letters, dedupe, age .. ' ' .. letter)
  local before = redis.call('HGET', keys, dedupe) or ''
  if before ~= key then
    if before ~= '' and redis.call('HINCRBY', blocked, before, -1) <= 0 then redis.call('HDEL', blocked, before) end
    if key == '' then
      redis.call('HDEL', keys, dedupe)
    else
      redis.call('HSET', keys, dedupe, key)
      redis.call('HINCRBY', blocked, key, 1)
    end
  end
end
return #ARGV / 3
`);
