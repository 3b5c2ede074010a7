/**
 * Copies of one id inside a batch. The first claims; the others are provisional until it is decided: when it was done
 * they are duplicates, and when it was not the next of them is claimed anew.
 */
export function splitFollowers<T>(
  items: readonly T[],
  idOf: (item: T) => string,
): { readonly firsts: readonly T[]; readonly followersOf: ReadonlyMap<T, readonly T[]> } {
  const firstOf = new Map<string, T>();
  const followersOf = new Map<T, T[]>();
  const firsts: T[] = [];
  for (const item of items) {
    const id = idOf(item);
    const first = firstOf.get(id);
    if (first === undefined) {
      firstOf.set(id, item);
      firsts.push(item);
      continue;
    }
    const followers = followersOf.get(first);
    if (followers === undefined) followersOf.set(first, [item]);
    else followers.push(item);
  }
  return { firsts, followersOf };
}
