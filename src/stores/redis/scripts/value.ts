/**
 * What is kept of an id: one string, so that the claim of a new one is one command on the server's only thread.
 *
 *     <nonce> <fingerprint> c<end of the lease> <token>     claimed
 *       r <token>                                           released: both are empty
 *     <nonce> <fingerprint> d<when> <result>                done
 *
 * Times in ms; the fingerprint is empty for none. No nonce, fingerprint or number holds a space, and what may hold one, the
 * result as JSON or nothing, comes last. Once done the nonce is there still, so that an owner who did not hear the answer
 * can say it again. Nonce and fingerprint come first since a claim brings them as they are kept, one argument for both.
 *
 * In Lua: `fields` gives nonce, fingerprint, letter, time and the rest; nothing where nothing is kept; and for what is not
 * ours the error that a key of another type gives.
 */
export const FIELDS = `
local function fields(key)
  local value = redis.call('GET', key)
  if not value then return end
  local owner, print, state, time, rest = string.match(value, '^(%S*) (%S*) ([crd])(%d*) (.*)$')
  if not owner then redis.call('HGET', key, '') end
  return owner, print, state, time, rest
end
`;
