import { script } from './script.ts';
import { FIELDS } from './value.ts';

/** KEYS: the ids. Reply: for each its letter, time and the rest, or nothing where there is none. See value.ts. */
export const inspect = script(`${FIELDS}
local found = {}
for i, key in ipairs(KEYS) do
  local _, _, state, time, rest = fields(key)
  found[i] = { state, time, rest }
end
return found
`);
