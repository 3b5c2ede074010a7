import { createHash } from 'node:crypto';
import type { Claim } from '../ports/store.ts';

/**
 * The key that a downstream gets for one step of one message: the same in every try, process and version of this library, and
 * another one for each step and consumer. 47 characters of A–Z, a–z, 0–9, `-` and `_`: fits the header of any provider (the
 * strictest known take 64). A message that a person has changed before it was sent through again is another one (`revision`): under
 * the old key the other side would refuse it, or answer for what it was before.
 */
export function effectKey(consumer: string, claim: Pick<Claim, 'key'>, name: string, revision = 0): string {
  const digest = createHash('sha256');
  const parts = [Buffer.from(consumer), claim.key, Buffer.from(name)];
  if (revision > 0) parts.push(Buffer.from(`revision ${revision}`));
  // Each with its length before it, so that no two of them can be cut in two ways.
  for (const part of parts) {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(part.length);
    digest.update(length).update(part);
  }
  return `nt1_${digest.digest('base64url')}`;
}
