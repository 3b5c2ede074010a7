import { CLOCK, script } from './script.ts';
import { FIELDS } from './value.ts';

/**
 * Marks as done every id that the nonce still owns, and counts them by the hour. From now on the key lives for the
 * retention. Said again by the same owner it changes nothing and is still true: the first answer may have been lost.
 *
 * What is done is recorded on a full server too, which refuses a SET until the script has written something else.
 *
 * KEYS: the ids; then the hash of counts, with fields n<hour> how many, a<hour> first and z<hour> last, both in ms.
 * ARGV: retention in ms; then for each id its nonce and result ('' for none). Reply: 1 or 0 for each id.
 */
export const complete = script(`${CLOCK}${FIELDS}
local retention, counts = tonumber(ARGV[1]), KEYS[#KEYS]
local done = ' d' .. text(now) .. ' '
local owned, new = {}, 0
for i = 1, #KEYS - 1 do
  local key, nonce, result = KEYS[i], ARGV[2 * i], ARGV[2 * i + 1]
  local owner, print, state = fields(key)
  owned[i] = (owner == nonce and state ~= 'r') and 1 or 0
  if owned[i] == 1 and state == 'c' then
    if new == 0 then redis.call('PEXPIRE', key, ARGV[1]) end
    new = new + 1
    redis.call('SET', key, nonce .. ' ' .. print .. done .. result, 'PX', ARGV[1])
  end
end
if new > 0 then
  local hour = math.floor(now / 3600000)
  if redis.call('HINCRBY', counts, 'n' .. hour, new) == new then
    local last = math.floor((now - retention) / 3600000)
    for _, field in ipairs(redis.call('HKEYS', counts)) do
      if tonumber(string.sub(field, 2)) < last then redis.call('HDEL', counts, field) end
    end
  end
  redis.call('HSETNX', counts, 'a' .. hour, text(now))
  redis.call('HSET', counts, 'z' .. hour, text(now))
  redis.call('PEXPIRE', counts, text(retention + 3600000))
end
return owned
`);
