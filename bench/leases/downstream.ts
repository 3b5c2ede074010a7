import { Worker } from 'node:worker_threads';

const PLACES = 64;

/**
 * Something elsewhere that takes a fixed time for each call, however busy this thread is. Not a timer of Node.js: those are
 * waited for in whole milliseconds from when this thread has nothing left to do, so that every microsecond of work would be
 * added to everybody's wait.
 */
export class Downstream {
  /** By place: 1 while a call is under way. */
  readonly #busy: Int32Array<SharedArrayBuffer>;
  /** By place: when the call ends, in milliseconds since 1970. */
  readonly #due: Float64Array<SharedArrayBuffer>;
  /** Changes with every call, which wakes the worker up. */
  readonly #calls: Int32Array<SharedArrayBuffer>;
  readonly #free = Array.from({ length: PLACES }, (_, place) => place);
  readonly #worker: Worker;
  readonly #ms: number;

  constructor(ms: number) {
    this.#ms = ms;
    this.#busy = new Int32Array(new SharedArrayBuffer(4 * PLACES));
    this.#due = new Float64Array(new SharedArrayBuffer(8 * PLACES));
    this.#calls = new Int32Array(new SharedArrayBuffer(4));
    const workerData = { busy: this.#busy, due: this.#due, calls: this.#calls };
    this.#worker = new Worker(new URL('./downstream-worker.ts', import.meta.url), { workerData });
  }

  async call(): Promise<void> {
    const place = this.#free.pop();
    if (place === undefined) throw new Error(`more than ${PLACES} calls at a time`);
    this.#due[place] = performance.timeOrigin + performance.now() + this.#ms;
    Atomics.store(this.#busy, place, 1);
    const answered = Atomics.waitAsync(this.#busy, place, 1).value;
    Atomics.add(this.#calls, 0, 1);
    Atomics.notify(this.#calls, 0);
    await answered;
    this.#free.push(place);
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }
}
