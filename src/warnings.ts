const LIMIT = 1_000;

/**
 * One line for a person through Node's own warning channel (`process.on('warning')`, `--no-warnings`), at most one per
 * code and text.
 */
export function warner(): (code: string, text: string) => void {
  const said = new Set<string>();
  return (code, text) => {
    const line = `${code} ${text}`;
    if (said.has(line) || said.size >= LIMIT) return;
    said.add(line);
    process.emitWarning(text, { type: 'NevertwiceWarning', code });
  };
}
