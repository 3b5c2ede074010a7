// Enough to recognise a value by; libraries shorten long ones, so the whole of it need not be there.
const TELLING = 12;
const MOST_NODES = 10_000;
const WORD = /[\p{L}\p{N}_]/u;

/**
 * True when a text that somebody else wrote (a schema, a user's function) repeats a text or number that stands anywhere
 * in `body`: then it must not be shown. Also true for a body that is too large to look through.
 */
export function quotesBody(text: string, body: unknown): boolean {
  const seen = new Set<object>();
  const left: unknown[] = [body];
  for (let looked = 0; left.length > 0; looked++) {
    if (looked >= MOST_NODES) return true;
    const value = left.pop();
    if (typeof value === 'object' && value !== null) {
      if (seen.has(value)) continue;
      seen.add(value);
      if (value instanceof Date) left.push(String(value), JSON.stringify(value));
      else if (!(value instanceof Uint8Array)) for (const item of itemsOf(value)) left.push(item);
    } else if (value !== undefined && value !== null) {
      const leaf = String(value);
      if (appears(leaf, text) || appears(JSON.stringify(leaf).slice(1, -1), text)) return true;
    }
  }
  return false;
}

function itemsOf(value: object): Iterable<unknown> {
  return Array.isArray(value) || value instanceof Map || value instanceof Set ? value : Object.values(value);
}

/** Whether `leaf` stands in `text` on its own: the 5 of `got 5`, not that of `at most 500`. */
function appears(leaf: string, text: string): boolean {
  const start = leaf.trim().slice(0, TELLING);
  if (start === '') return false;
  for (let at = text.indexOf(start); at !== -1; at = text.indexOf(start, at + 1)) {
    const after = text[at + start.length];
    if (!isWord(text[at - 1]) && (start.length === TELLING || !isWord(after))) return true;
  }
  return false;
}

function isWord(character: string | undefined): boolean {
  return character !== undefined && WORD.test(character);
}
