import { createHash } from 'node:crypto';
import type { Claim } from '../ports/store.ts';

/**
 * The key that a downstream gets for one step of one message: the same in every try, process and version of this library, and
 * another one for each step and consumer. 47 characters of A–Z, a–z, 0–9, `-` and `_`: fits the header of any provider (the
 * strictest known take 64).
 */
export function effectKey(consumer: string, claim: Pick<Claim, 'key'>, name: string): string {
  const digest = createHash('sha256');
  // Each with its length before it, so that no two of them can be cut in two ways.
  for (const part of [Buffer.from(consumer), claim.key, Buffer.from(name)]) {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(part.length);
    digest.update(length).update(part);
  }
  return `nt1_${digest.digest('base64url')}`;
}
