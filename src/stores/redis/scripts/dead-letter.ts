import { CLOCK, script } from './script.ts';

/**
 * Writes dead letters. A copy of one takes its place, also in the order of age.
 *
 * KEYS: the hash of letters, dedupe → `<age in µs> <JSON>`; that of their keys, dedupe → key; key → how many letters; and that
 * of notes, `<dedupe>@` → when it was last written in µs.
 * ARGV: for each letter its dedupe, JSON, and key as JSON ('' for none).
 */
export const deadLetter = script(`${CLOCK}
local letters, keys, blocked, notes = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
for i = 1, #ARGV, 3 do
  local dedupe, letter, key = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local last = redis.call('HGET', letters, dedupe)
  local age = last and string.match(last, '^%d+') or text(micros + i)
  redis.call('HSET', letters, dedupe, age .. ' ' .. letter)
  redis.call('HSET', notes, dedupe .. '@', text(micros))
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

/**
 * Everything about the letters, and the server's time.
 *
 * KEYS: letters, notes. Reply: names and values of both, and µs since 1970.
 */
export const readLetters = script(`${CLOCK}
return { redis.call('HGETALL', KEYS[1]), redis.call('HGETALL', KEYS[2]), text(micros) }
`);

/**
 * Replaces a letter and its note if both are still as they were read.
 *
 * KEYS: letters, notes. ARGV: dedupe, the letter's value before and after, the note's before ('' for none) and after. Reply: 1 or 0.
 */
export const replaceLetter = script(`
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
if (redis.call('HGET', KEYS[2], ARGV[1]) or '') ~= ARGV[4] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[5])
return 1
`);

/**
 * Takes a letter away, with everything about it, if it is still the one of that age.
 *
 * KEYS: as for writing. ARGV: dedupe, age. Reply: 1 or 0.
 */
export const removeLetter = script(`
local letters, keys, blocked, notes = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local letter = redis.call('HGET', letters, ARGV[1])
if not letter or string.match(letter, '^%d+') ~= ARGV[2] then return 0 end
redis.call('HDEL', letters, ARGV[1])
redis.call('HDEL', notes, ARGV[1], ARGV[1] .. '@')
local key = redis.call('HGET', keys, ARGV[1])
if key then
  redis.call('HDEL', keys, ARGV[1])
  if redis.call('HINCRBY', blocked, key, -1) <= 0 then redis.call('HDEL', blocked, key) end
end
return 1
`);
