import { CLOCK, script } from './script.ts';
import { FIELDS } from './value.ts';

/**
 * Sets the end of the lease of every id that the nonce still owns.
 *
 * KEYS: the ids. ARGV: lease and time to live in ms; then for each id its nonce. Reply: 1 or 0 for each.
 */
export const renew = script(`${CLOCK}${FIELDS}
local lasts = ' c' .. text(now + tonumber(ARGV[1])) .. ' '
local owned = {}
for i, key in ipairs(KEYS) do
  local owner, print, state, _, token = fields(key)
  owned[i] = (owner == ARGV[i + 2] and state == 'c') and 1 or 0
  if owned[i] == 1 then
    redis.call('SET', key, owner .. ' ' .. print .. lasts .. token, 'PX', ARGV[2])
  end
end
return owned
`);
