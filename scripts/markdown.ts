/** A fenced block of a Markdown page. */
export interface Block {
  /** Relative to the repository: `docs/stores.md`. */
  readonly page: string;
  /** Line of its first line of code, from 1. */
  readonly line: number;
  /** The words after the fence: `['ts', 'run']`. */
  readonly words: readonly string[];
  readonly lines: readonly string[];
  /** Lines of a `<!-- given … -->` comment right above the block, with the number of the first. */
  readonly given: { readonly line: number; readonly lines: readonly string[] } | undefined;
  /** The block right below it, when only blank lines stand between. */
  readonly next: Block | undefined;
}

/** All fenced blocks of a page, in order. A fence may be indented, as in a list. */
export function blocksOf(page: string, text: string): Block[] {
  const lines = text.split(/\r?\n/);
  const blocks: { -readonly [K in keyof Block]: Block[K] }[] = [];
  let given: Block['given'];
  let previous: (typeof blocks)[number] | undefined;
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i] as string;
    const fence = /^( *)(`{3,})(.*)$/.exec(line);
    if (fence !== null) {
      const [, indent = '', ticks = '', info = ''] = fence;
      const end = lines.findIndex((later, at) => at > i && later.trim() === ticks);
      if (end === -1) throw new Error(`${page}:${i + 1} this block is never closed`);
      const body = lines
        .slice(i + 1, end)
        .map(inner => (inner.startsWith(indent) ? inner.slice(indent.length) : inner));
      const block = { page, line: i + 2, words: info.trim().split(/\s+/), lines: body, given, next: undefined };
      if (previous !== undefined) previous.next = block;
      blocks.push(block);
      previous = block;
      given = undefined;
      i = end;
    } else if (line.trim() === '<!-- given') {
      const end = lines.findIndex((later, at) => at > i && later.trim() === '-->');
      if (end === -1) throw new Error(`${page}:${i + 1} this comment is never closed`);
      given = { line: i + 2, lines: lines.slice(i + 1, end) };
      previous = undefined;
      i = end;
    } else if (line.trim() !== '') {
      given = undefined;
      previous = undefined;
    }
  }
  return blocks;
}

/**
 * The code of a block as a module, in which every line has the number that it has in the page, so that a compiler's
 * message points there. A block marked `continue` starts with the code of the one before it.
 */
export function moduleOf(block: Block, page: readonly Block[]): string {
  const typescript = page.filter(other => other.words[0] === 'ts');
  const last = typescript.indexOf(block);
  let first = last;
  while (first > 0 && typescript[first]?.words.includes('continue')) first -= 1;
  const lines: string[] = [];
  for (const { given, line, lines: code } of typescript.slice(first, last + 1)) {
    for (const part of [given, { line, lines: code }]) {
      part?.lines.forEach((text, i) => {
        lines[part.line - 1 + i] = text;
      });
    }
  }
  return `${Array.from(lines, text => text ?? '').join('\n')}\nexport {};\n`;
}

/** True when `actual` is `expected`, in which `…` stands for anything within a line, and alone on one for any lines. */
export function matchesOutput(actual: string, expected: readonly string[]): boolean {
  const literal = (text: string): string => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&');
  const pattern = expected.map(line =>
    line.trim() === '…' ? '(?:.*\\n)*?' : `${line.trimEnd().split('…').map(literal).join('.*')}[ \\t]*\\n`,
  );
  return new RegExp(`^${pattern.join('')}$`).test(`${actual.trimEnd()}\n`);
}
