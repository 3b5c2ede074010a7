import { CLOCK, script } from './script.ts';

/** KEYS: a hash of counts, see complete.ts. ARGV: retention in ms. Reply: how many, the first and the last in ms or false. */
export const counts = script(`${CLOCK}
local since = math.floor((now - tonumber(ARGV[1])) / 3600000)
local fields = redis.call('HGETALL', KEYS[1])
local many, first, last = 0, false, false
for i = 1, #fields, 2 do
  local kind, hour, value = string.sub(fields[i], 1, 1), tonumber(string.sub(fields[i], 2)), tonumber(fields[i + 1])
  if hour >= since then
    if kind == 'n' then many = many + value end
    if kind == 'a' and (not first or value < first) then first = value end
    if kind == 'z' and (not last or value > last) then last = value end
  end
end
return { text(many), first and text(first), last and text(last) }
`);
