import { NevertwiceError } from '../../errors.ts';

/** The JSON of a handler's result, or '' for none, which no JSON is. Throws NT_CONFIG for what has no JSON at all. */
export function resultText(result: unknown): string {
  if (result === undefined) return '';
  const what = typeof result === 'object' ? 'object' : typeof result;
  let text: string | undefined;
  try {
    text = JSON.stringify(result);
  } catch (cause) {
    // A bigint within, or a circle.
    throw refused(what, cause);
  }
  if (text === undefined) throw refused(what);
  return text;
}

function refused(what: string, cause?: unknown): NevertwiceError {
  return new NevertwiceError(
    'NT_CONFIG',
    `a handler's result (${what}) has no form in JSON, and Redis cannot keep it; return JSON or nothing`,
    { cause },
  );
}
