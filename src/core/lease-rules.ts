/** An owner's token: the time in microseconds, and always above the last owner's. */
export function nextToken(last: bigint | undefined, nowMs: number): bigint {
  const micros = BigInt(Math.floor(nowMs * 1000));
  return last === undefined || micros > last ? micros : last + 1n;
}

/** The answer to a claim whose payload is another than that of the first; undefined when they agree or one is not known. */
export function payloadConflict(
  stored: string | undefined,
  offered: string | undefined,
): { readonly answer: 'conflict'; readonly stored: string; readonly offered: string } | undefined {
  if (stored === undefined || offered === undefined || stored === offered) return undefined;
  return { answer: 'conflict', stored, offered };
}
