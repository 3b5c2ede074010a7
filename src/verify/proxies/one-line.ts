const UUID = /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi;

/**
 * Text for one line of a story. Random ids are left out: what a consumer asks for is compared from execution to execution,
 * and a new id each time is no difference.
 */
export function oneLine(text: string, most: number): string {
  const line = text.replace(UUID, '<uuid>').replace(/\s+/g, ' ').trim();
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}
