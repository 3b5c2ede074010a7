/**
 * Finds which of the entries `http /metrics`, `redis cache:*` of `ignore` and `accept` is about something of a place; `*` stands
 * for any text.
 */
export function entryFor(place: string, entries: readonly string[]): (name: string) => string | undefined {
  const own = entries
    .filter(entry => entry.startsWith(`${place} `))
    .map(entry => ({ entry, fits: pattern(entry.slice(place.length + 1).trim()) }));
  return name => own.find(({ fits }) => fits.test(name))?.entry;
}

export function pattern(text: string): RegExp {
  return new RegExp(`^${text.split('*').map(escaped).join('.*')}$`, 's');
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');
}
