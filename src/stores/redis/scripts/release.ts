import { script } from './script.ts';

/**
 * Gives up every id that the nonce still owns. The key stays as the memory of its token.
 *
 * KEYS: the ids. ARGV: time to live in ms; then for each id its nonce. Reply: 1 or 0 for each.
 */
export const release = script(`
local owned = {}
for i, key in ipairs(KEYS) do
  local s = redis.call('HMGET', key, 'n', 'd')
  owned[i] = (s[1] == ARGV[i + 1] and not s[2]) and 1 or 0
  if owned[i] == 1 then
    redis.call('HDEL', key, 'n', 'u')
    redis.call('PEXPIRE', key, ARGV[1])
  end
end
return owned
`);
