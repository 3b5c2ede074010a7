/**
 * Rows under a heading, in columns as wide as their widest cell.
 *
 * @param right columns of numbers
 */
export function table(
  heading: readonly string[],
  rows: readonly (readonly string[])[],
  right: ReadonlySet<number>,
): string {
  const widths = heading.map((title, column) => Math.max(title.length, ...rows.map(row => row[column]!.length)));
  return [heading, ...rows]
    .map(row =>
      row
        .map((cell, column) => (right.has(column) ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!)))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
