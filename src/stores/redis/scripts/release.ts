import { script } from './script.ts';
import { FIELDS } from './value.ts';

/**
 * Gives up every id that the nonce still owns. The key stays as the memory of its token. On a full server too: see
 * complete.ts.
 *
 * KEYS: the ids. ARGV: time to live in ms; then for each id its nonce. Reply: 1 or 0 for each.
 */
export const release = script(`${FIELDS}
local owned, written = {}, false
for i, key in ipairs(KEYS) do
  local owner, _, state, _, token = fields(key)
  owned[i] = (owner == ARGV[i + 1] and state == 'c') and 1 or 0
  if owned[i] == 1 then
    if not written then written = redis.call('PEXPIRE', key, ARGV[1]) end
    redis.call('SET', key, '  r ' .. token, 'PX', ARGV[1])
  end
end
return owned
`);
