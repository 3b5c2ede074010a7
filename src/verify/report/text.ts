const WIDE =
  /\p{Emoji_Presentation}|\uFE0F|[\u1100-\u115F\u2E80-\u303E\u3041-\uA4CF\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60\uFFE0-\uFFE6\u{20000}-\u{3FFFD}]/u;
const GRAPHEMES = new Intl.Segmenter('en', { granularity: 'grapheme' });

/**
 * What users' values say, on one line, unable to move a cursor, change a colour or turn the direction of writing: a fixture
 * or an error message may hold anything.
 */
export function clean(text: string): string {
  return text
    .replace(/\s+/gu, ' ')
    .trim()
    .replace(/[\p{Cc}\p{Cs}]|(?!\u200D)\p{Cf}/gu, char => `\\u${char.codePointAt(0)!.toString(16).padStart(4, '0')}`);
}

/** Columns of a terminal that it takes. */
export function widthOf(text: string): number {
  let width = 0;
  for (const { segment } of GRAPHEMES.segment(text))
    width += WIDE.test(segment) ? 2 : /^\p{Mark}+$/u.test(segment) ? 0 : 1;
  return width;
}

export function padded(text: string, width: number, fill = ' '): string {
  return text + fill.repeat(Math.max(0, width - widthOf(text)));
}

/** The longest beginning that fits. */
function head(text: string, width: number): string {
  let taken = '';
  let used = 0;
  for (const { segment } of GRAPHEMES.segment(text)) {
    used += widthOf(segment);
    if (used > width) break;
    taken += segment;
  }
  return taken;
}

/** Shortened to the width, with a `…` where something is missing. */
export function cut(text: string, width: number): string {
  return widthOf(text) <= width ? text : `${head(text, width - 1).trimEnd()}…`;
}

/** Lines of at most this width, broken at spaces where there are any. */
export function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  let rest = text;
  while (widthOf(rest) > width) {
    const most = head(rest, width);
    // A space right behind it is as good as one within.
    const space = rest[most.length] === ' ' ? most.length : most.lastIndexOf(' ');
    // Half a line left empty is uglier than a broken word.
    const at = space > width / 2 ? space : most.length || 1;
    lines.push(rest.slice(0, at).trimEnd());
    rest = rest.slice(at).trimStart();
  }
  lines.push(rest);
  return lines;
}

/** As one word of a POSIX shell. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./#-]+$/.test(text) && !text.startsWith('#') ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

export function many(n: number, one: string, more = `${one}s`): string {
  return `${n} ${n === 1 ? one : more}`;
}

/** `a, b and c` */
export function listed(items: readonly string[]): string {
  return items.length < 2 ? items.join('') : `${items.slice(0, -1).join(', ')} and ${items.at(-1)}`;
}
