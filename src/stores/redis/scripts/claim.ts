import { CLOCK, script } from './script.ts';
import { FIELDS } from './value.ts';

/**
 * Claims every id that nobody owns.
 *
 * A claim that comes with the nonce of the owner is the same claim, sent again by a client that lost the answer.
 * The token is above the last owner's and not below the server's time: a key that was lost does not start again at 1, where
 * a stale owner would pass for the newest.
 *
 * A server that takes no writes, a full one, can still tell a copy: what it says to the first SET counts only where there
 * is something to write.
 *
 * KEYS: the ids. ARGV: lease and time to live in ms; then one line for each id, its nonce and fingerprint ('' for none) with
 * a space between: all in one argument, since a client spends more on an argument than Lua on a line. Reply: the token of
 * all ids that are new; then for each other one its place, from 0, and `fresh, token` | `duplicate, at, result` |
 * `busy, until` | `conflict, fingerprint`.
 */
export const claim = script(`${CLOCK}${FIELDS}
local first, ttl = text(micros), ARGV[2]
local lasts = ' c' .. text(now + tonumber(ARGV[1])) .. ' '
local new = lasts .. first
local answers, offers = { first }, string.gmatch(ARGV[3], '[^\\n]+')
for i, key in ipairs(KEYS) do
  local offer = offers()
  local set = redis.pcall('SET', key, offer .. new, 'NX', 'PX', ttl)
  if not set or set.err then
    local nonce, offered = string.match(offer, '^(%S*) (%S*)$')
    local owner, print, state, time, rest = fields(key)
    local again = state == 'c' and owner == nonce
    local taken = state == 'd' or (state == 'c' and not again and tonumber(time) > now)
    local answer
    if taken and print ~= '' and offered ~= '' and print ~= offered then
      answer = { i - 1, 'conflict', print }
    elseif state == 'd' then
      answer = { i - 1, 'duplicate', time, rest }
    elseif taken then
      answer = { i - 1, 'busy', time }
    else
      local token = first
      if again then token = rest elseif state then token = text(math.max(rest + 1, micros)) end
      redis.call('SET', key, offer .. lasts .. token, 'PX', ttl)
      answer = { i - 1, 'fresh', token }
    end
    answers[#answers + 1] = answer
  end
end
return answers
`);
