import { CLOCK, script } from './script.ts';

/**
 * Claims every id that nobody owns. Fields of an id's hash: n nonce, t token, u end of the lease, f fingerprint; once
 * done: d when, r result as JSON, and n still, so that an owner who did not hear the answer can say it again.
 *
 * A claim that comes with the nonce of the owner is the same claim, sent again by a client that lost the answer.
 * The token is above the last owner's and not below the server's time: a key that was lost does not start again at 1, where
 * a stale owner would pass for the newest.
 *
 * KEYS: the ids. ARGV: lease and time to live in ms; then for each id its nonce and fingerprint ('' for none).
 * Reply: for each `fresh, token` | `duplicate, at, result | false` | `busy, until` | `conflict, fingerprint`.
 */
export const claim = script(`${CLOCK}
local lasts, first, ttl = text(now + tonumber(ARGV[1])), text(micros), ARGV[2]
local answers = {}
for i, key in ipairs(KEYS) do
  local nonce, offered = ARGV[2 * i + 1], ARGV[2 * i + 2]
  local s = redis.call('HMGET', key, 'n', 't', 'u', 'f', 'd', 'r')
  local owner, token, ends, print, done, result = s[1], s[2], s[3], s[4], s[5], s[6]
  local again = owner == nonce and not done
  local taken = done or (owner and not again and tonumber(ends) > now)
  if taken and print and offered ~= '' and print ~= offered then
    answers[i] = { 'conflict', print }
  elseif done then
    answers[i] = { 'duplicate', done, result }
  elseif taken then
    answers[i] = { 'busy', ends }
  else
    if not token then token = first elseif not again then token = text(math.max(token + 1, micros)) end
    if offered ~= '' then
      redis.call('HSET', key, 'n', nonce, 't', token, 'u', lasts, 'f', offered)
    else
      redis.call('HSET', key, 'n', nonce, 't', token, 'u', lasts)
      if print then redis.call('HDEL', key, 'f') end
    end
    redis.call('PEXPIRE', key, ttl)
    answers[i] = { 'fresh', token }
  end
end
return answers
`);
