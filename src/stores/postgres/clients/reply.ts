import { NevertwiceError } from '../../../errors.ts';

/** The promise's own outcome, or NT_STORE_DOWN when it takes longer than `ms`: a half-open connection never answers. */
export function within<R>(ms: number, promise: Promise<R>): Promise<R> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new NevertwiceError('NT_STORE_DOWN', `PostgreSQL did not answer within ${ms} ms`)),
      ms,
    );
    promise.then(
      value => {
        clearTimeout(timer);
        resolve(value);
      },
      error => {
        clearTimeout(timer);
        reject(error);
      },
    );
  });
}

/** True when the promise resolves within `ms`. */
export function succeedsWithin(ms: number, promise: Promise<unknown>): Promise<boolean> {
  return within(ms, promise).then(
    () => true,
    () => false,
  );
}
