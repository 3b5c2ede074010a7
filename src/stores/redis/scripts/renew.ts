import { CLOCK, script } from './script.ts';

/**
 * Sets the end of the lease of every id that the nonce still owns.
 *
 * KEYS: the ids. ARGV: lease and time to live in ms; then for each id its nonce. Reply: 1 or 0 for each.
 */
export const renew = script(`${CLOCK}
local owned = {}
for i, key in ipairs(KEYS) do
  local s = redis.call('HMGET', key, 'n', 'd')
  owned[i] = (s[1] == ARGV[i + 2] and not s[2]) and 1 or 0
  if owned[i] == 1 then
    redis.call('HSET', key, 'u', text(now + tonumber(ARGV[1])))
    redis.call('PEXPIRE', key, ARGV[2])
  end
end
return owned
`);
