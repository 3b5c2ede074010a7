import { userLine } from './ungated.ts';

const HERE = import.meta.filename;

/**
 * Makes the wall clock of this process one that can be put ahead, and sees whether the user's own code reads it. Monotonic
 * clocks stay as they are: they mean nothing to another process.
 */
export function watchClock(): { began(aheadMs: number): void; ended(): boolean } {
  const RealDate = Date;
  let aheadMs = 0;
  let handling = false;
  let read = false;
  const now = () => {
    read ||= handling && isReadByUser(new Error().stack ?? '');
    return RealDate.now() + aheadMs;
  };
  const Clocked: DateConstructor = new Proxy(RealDate, {
    apply: () => new RealDate(now()).toString(),
    construct: (target, args, made): Date =>
      Reflect.construct(target, args.length === 0 ? [now()] : args, made === Clocked ? target : made),
    get: (target, name) => (name === 'now' ? now : Reflect.get(target, name)),
  });
  RealDate.prototype.constructor = Clocked;
  globalThis.Date = Clocked;
  return {
    began(ms) {
      aheadMs = ms;
      handling = true;
      read = false;
    },
    ended() {
      handling = false;
      return read;
    },
  };
}

/** What a package looks at the clock for (idle times, logs), nothing in another process depends on. */
function isReadByUser(stack: string): boolean {
  const callers = stack.split('\n').filter(line => !line.includes(HERE));
  return userLine(['', ...callers].join('\n')) !== undefined;
}
