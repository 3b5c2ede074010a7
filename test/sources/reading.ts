import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Delivery } from '../../src/ports/delivery.ts';
import type { Lane, Source } from '../../src/ports/source.ts';
import type { Positions } from '../../src/ports/store.ts';

/** Positions in memory, and every save in order. */
export interface KeptPositions extends Positions {
  readonly saved: ReadonlyMap<string, string>;
  readonly saves: readonly string[];
}

export function keptPositions(): KeptPositions {
  const saved = new Map<string, string>();
  const saves: string[] = [];
  return {
    saved,
    saves,
    load: async (consumer, lane) => saved.get(`${consumer} ${lane}`),
    save: async (consumer, lane, position) => {
      saved.set(`${consumer} ${lane}`, position);
      saves.push(position);
    },
  };
}

/** An open run of a source: its lanes, and the way to end it. */
export interface Opened {
  readonly lanes: readonly Lane[];
  readonly stop: AbortController;
  close(): Promise<void>;
}

/** Takes `count` lanes. */
export async function open(source: Source, count: number, positions: Positions = keptPositions()): Promise<Opened> {
  const stop = new AbortController();
  const iterator = source.receive({ signal: stop.signal, consumer: 'wallet', positions })[Symbol.asyncIterator]();
  const lanes: Lane[] = [];
  while (lanes.length < count) {
    const next = await iterator.next();
    if (next.done === true) throw new Error(`the source ended after ${lanes.length} of ${count} lanes`);
    lanes.push(next.value);
  }
  return {
    lanes,
    stop,
    close: async () => {
      stop.abort();
      await iterator.return?.();
    },
  };
}

/** Reads a finite source to its end, lane after lane, and acks what `settles` picks. */
export async function readAll(
  source: Source,
  {
    positions = keptPositions(),
    settles = () => true,
  }: { positions?: Positions; settles?: (d: Delivery) => boolean } = {},
): Promise<Delivery[]> {
  const { signal } = new AbortController();
  const iterator = source.receive({ signal, consumer: 'wallet', positions })[Symbol.asyncIterator]();
  const all: Delivery[] = [];
  for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) {
    for (
      let batch = await next.value.receive(100, signal);
      batch.length > 0;
      batch = await next.value.receive(100, signal)
    ) {
      all.push(...batch);
      await next.value.settle(batch.filter(settles).map(delivery => ({ delivery, settle: 'ack' })));
    }
  }
  await iterator.return?.();
  return all;
}

export function ack(lane: Lane, ...deliveries: readonly Delivery[]): Promise<void> {
  return lane.settle(deliveries.map(delivery => ({ delivery, settle: 'ack' })));
}

export function idsOf(deliveries: readonly Delivery[]): (string | undefined)[] {
  return deliveries.map(({ headers }) => headers.get('message-id'));
}

/** A directory for one test file's files. Call the second to remove it. */
export function temporary(): { path: (name: string) => string; remove: () => void } {
  const directory = mkdtempSync(join(tmpdir(), 'nevertwice-'));
  return { path: name => join(directory, name), remove: () => rmSync(directory, { recursive: true }) };
}
