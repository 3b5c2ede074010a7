export interface Placed {
  readonly route: unknown;
  /** What must stay in order; messages without one stay in order among each other. */
  readonly key: string | undefined;
}

/**
 * Splits messages of mixed types into runs of one route each, as few as a left-to-right pass finds, never letting a
 * message overtake an earlier one of the same key. A message may join an earlier run of its route when no later run
 * holds its key.
 */
export function planRuns<T extends Placed>(
  items: readonly T[],
): readonly { readonly route: T['route']; readonly items: readonly T[] }[] {
  const runs: { route: T['route']; items: T[] }[] = [];
  const lastRunOfKey = new Map<string | undefined, number>();
  const lastRunOfRoute = new Map<T['route'], number>();
  for (const item of items) {
    const earliest = lastRunOfKey.get(item.key) ?? 0;
    let at = lastRunOfRoute.get(item.route);
    if (at === undefined || at < earliest) {
      at = runs.length;
      runs.push({ route: item.route, items: [] });
      lastRunOfRoute.set(item.route, at);
    }
    runs[at]!.items.push(item);
    lastRunOfKey.set(item.key, at);
  }
  return runs;
}

/** Runs of one route each, as they stand: nothing overtakes anything, so that a cut leaves out the end and only that. */
export function runsInOrder<T extends Placed>(
  items: readonly T[],
): readonly { readonly route: T['route']; readonly items: readonly T[] }[] {
  const runs: { route: T['route']; items: T[] }[] = [];
  for (const item of items) {
    const last = runs.at(-1);
    if (last !== undefined && last.route === item.route) last.items.push(item);
    else runs.push({ route: item.route, items: [item] });
  }
  return runs;
}

/** Lists of items with the same key, each in order; every item without a key is a list of its own. */
export function byKey<T extends { readonly key: string | undefined }>(items: readonly T[]): readonly (readonly T[])[] {
  const chains: T[][] = [];
  const chainOfKey = new Map<string, T[]>();
  for (const item of items) {
    const known = item.key === undefined ? undefined : chainOfKey.get(item.key);
    if (known !== undefined) {
      known.push(item);
      continue;
    }
    const chain = [item];
    chains.push(chain);
    if (item.key !== undefined) chainOfKey.set(item.key, chain);
  }
  return chains;
}
