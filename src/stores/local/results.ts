import { losslessJson } from '../../core/lossless-json.ts';
import { NevertwiceError } from '../../errors.ts';

/**
 * A handler's result as JSON text; NULL for none.
 *
 * @throws NT_CONFIG naming what cannot be kept.
 */
export function resultText(result: unknown): string | null {
  return losslessJson(result, unfit) ?? null;
}

export function resultFrom(text: string | null): unknown {
  return text === null ? undefined : JSON.parse(text);
}

function unfit(why: string, cause?: unknown): NevertwiceError {
  return new NevertwiceError(
    'NT_CONFIG',
    `localStore keeps a handler's result as JSON, and this one cannot be kept: ${why}; return plain values, or nothing`,
    { cause },
  );
}
