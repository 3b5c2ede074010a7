import { script } from './script.ts';

/** KEYS: the ids. Reply: for each its fields n, t, u, d, r, or false where there is none. See claim.ts. */
export const inspect = script(`
local found = {}
for i, key in ipairs(KEYS) do
  found[i] = redis.call('HMGET', key, 'n', 't', 'u', 'd', 'r')
end
return found
`);
