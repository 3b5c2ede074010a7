/**
 * What is asked for, without what is another in each execution: random ids and times. Two executions have come to the same
 * place when they ask for the same otherwise.
 */
export function nameless(text: string): string {
  return text
    .replace(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/gi, '<uuid>')
    .replace(/\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.:+Z-]*/g, '<time>')
    .replace(/\b\d{12,}\b/g, '<number>')
    .replace(/\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{16,}\b/g, '<id>');
}
