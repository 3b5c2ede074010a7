/** Time and chance, injected so that tests decide them. The store's own clock decides when anything expires. */
export interface Clock {
  /** Milliseconds that never run backwards. */
  monotonicMs(): number;
  /** 0 ≤ x < 1. */
  random(): number;
  /** Resolves after `ms`, or at once when `signal` aborts; never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  random: Math.random,
  sleep(ms, signal) {
    if (signal?.aborted) return Promise.resolve();
    return new Promise(resolve => {
      const done = () => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      signal?.addEventListener('abort', done, { once: true });
    });
  },
};
