import { OUTBOX_PARTS } from '../ports/outbox.ts';

/** The part that a key's rows lie in, by its hash. */
export function partOf(hash: number): number {
  return hash % OUTBOX_PARTS;
}

/** Which parts a relay has: those that fall to its place in the sorted list of members. None where it is not in the list. */
export function partsOf(relay: string, members: readonly string[]): readonly number[] {
  const place = members.indexOf(relay);
  if (place === -1) return [];
  return Array.from({ length: OUTBOX_PARTS }, (_, part) => part).filter(part => part % members.length === place);
}
