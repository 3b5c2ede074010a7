import { NevertwiceError } from '../../../errors.ts';

/** The promise's own outcome, or NT_STORE_DOWN when it takes longer than `ms`: a half-open connection never answers. */
export function within<R>(ms: number, promise: Promise<R>): Promise<R> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new NevertwiceError('NT_STORE_DOWN', `PostgreSQL did not answer within ${ms} ms`)),
      ms,
    );
  });
  promise.catch(() => undefined);
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** True when the promise resolves within `ms`. */
export function succeedsWithin(ms: number, promise: Promise<unknown>): Promise<boolean> {
  return within(ms, promise).then(
    () => true,
    () => false,
  );
}
