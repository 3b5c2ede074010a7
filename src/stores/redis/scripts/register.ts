import { script } from './script.ts';

/** KEYS: the hash of consumers. ARGV: name and what to keep of it. Reply: what is kept, whoever came first. */
export const register = script(`
redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2])
return redis.call('HGET', KEYS[1], ARGV[1])
`);
