// Says which encoding a joined text is of.
const VERSION = 'p1';

/**
 * Several texts as one, injectively: different lists never give the same text. Parts are separated by `|`; inside a
 * part `%`, `|` and control characters are written as `%` and two hex digits, so the result is printable and
 * `["a", "b|c"]` is not `["a|b", "c"]`. Never change it: stored ids are made of it; a change is a new version in front.
 *
 *     joinParts(['/orders', '1'])   // 'p1|/orders|1'
 */
export function joinParts(parts: readonly string[]): string {
  let text = VERSION;
  for (const part of parts) text += `|${escapePart(part)}`;
  return text;
}

/** True for what `joinParts` may have made: such a text must not also stand for itself. */
export function looksJoined(text: string): boolean {
  return text.startsWith(`${VERSION}|`);
}

const SPECIAL = /[%|\p{Cc}]/u;
const EVERY_SPECIAL = /[%|\p{Cc}]/gu;

function escapePart(part: string): string {
  if (!SPECIAL.test(part)) return part;
  return part.replace(EVERY_SPECIAL, character => `%${character.charCodeAt(0).toString(16).padStart(2, '0')}`);
}
