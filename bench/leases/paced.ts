import { setTimeout as sleep } from 'node:timers/promises';
import { headersFrom } from '../../src/core/headers.ts';
import type { Delivery, Lane, Source } from '../../src/index.ts';

/** What everybody reads: messages in turn over the lanes, of which one after the other becomes due. */
export interface Paced {
  /** Messages in all lanes. */
  readonly events: number;
  readonly lanes: number;
  /** Messages a second in all lanes together; undefined for as fast as they are taken. */
  readonly perSecond: number | undefined;
  /** What is asked is how long messages wait, at a pace that everybody keeps. */
  readonly latency?: true;
}

/** One lane of a run that began at `startMs`. */
export class PacedLane {
  readonly #paced: Paced;
  readonly #lane: number;
  readonly #startMs: number;
  #taken = 0;

  constructor(paced: Paced, lane: number, startMs: number) {
    this.#paced = paced;
    this.#lane = lane;
    this.#startMs = startMs;
  }

  /** Numbers of the next messages that are due, at least one; none once all are taken. */
  async take(max: number): Promise<readonly number[]> {
    const { events, lanes, perSecond } = this.#paced;
    const all = Math.ceil((events - this.#lane) / lanes);
    if (this.#taken >= all) return [];
    const due = () => {
      if (perSecond === undefined) return all;
      const ms = performance.now() - this.#startMs;
      return Math.min(all, Math.floor(((ms / 1_000) * perSecond) / lanes));
    };
    while (due() <= this.#taken) await sleep(1);
    const numbers: number[] = [];
    for (const end = Math.min(due(), this.#taken + max); this.#taken < end; this.#taken++) {
      numbers.push(this.#taken * lanes + this.#lane);
    }
    return numbers;
  }
}

/** By so much after the start of a run a message becomes due, in milliseconds. */
export function dueMs({ lanes, perSecond }: Paced, number: number): number {
  return perSecond === undefined ? 0 : ((Math.floor(number / lanes) + 1) * lanes * 1_000) / perSecond;
}

/** The same as a source. `idOf` is what the message of a number is called. */
export function pacedSource(paced: Paced, idOf: (n: number) => string, started: (startMs: number) => void): Source {
  return {
    name: 'paced',
    capabilities: { retryLater: false, finite: true, readAhead: true },
    async *receive() {
      const startMs = performance.now();
      started(startMs);
      for (let lane = 0; lane < paced.lanes; lane++) yield laneOf(new PacedLane(paced, lane, startMs), lane, idOf);
    },
  };
}

function laneOf(paced: PacedLane, lane: number, idOf: (n: number) => string): Lane {
  const id = `paced/${lane}`;
  return {
    id,
    revoked: new AbortController().signal,
    receive: async max => (await paced.take(max)).map(n => deliveryOf(id, idOf(n))),
    settle: async () => undefined,
  };
}

function deliveryOf(lane: string, id: string): Delivery {
  return {
    lane,
    position: undefined,
    attempt: 1,
    headers: headersFrom({ 'message-id': id }),
    key: undefined,
    type: undefined,
    time: undefined,
    body: { value: null },
  };
}
