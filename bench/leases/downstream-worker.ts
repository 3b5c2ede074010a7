// The other end of `Downstream`: ends each call when it is due, to some microseconds.
import { workerData } from 'node:worker_threads';

const { busy, due, calls } = workerData as {
  busy: Int32Array<SharedArrayBuffer>;
  due: Float64Array<SharedArrayBuffer>;
  calls: Int32Array<SharedArrayBuffer>;
};

for (;;) {
  const seen = Atomics.load(calls, 0);
  const now = performance.timeOrigin + performance.now();
  let next = Number.POSITIVE_INFINITY;
  for (let place = 0; place < busy.length; place++) {
    if (Atomics.load(busy, place) === 0) continue;
    if (due[place]! <= now) {
      Atomics.store(busy, place, 0);
      Atomics.notify(busy, place);
    } else {
      next = Math.min(next, due[place]!);
    }
  }
  Atomics.wait(calls, 0, seen, next - now);
}
