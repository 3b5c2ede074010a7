import type { Consumer } from '../../src/index.ts';
import { memorySource } from '../../src/memory.ts';
import type { Source } from '../../src/ports/source.ts';
import type { Load } from './load.ts';

/**
 * One run of the library over the load. The source's own work (it hands a copy of each message to the consumer) is
 * inside the run; filling it is not, as it is not for the loops that read an array.
 */
export function runOf(load: Load, consumerOn: (source: Source) => Consumer): () => Promise<void> {
  const consumer = consumerOn(memorySource(load.lanes.flat(), { partitions: load.lanes.length }));
  return async () => {
    const { processed, duplicates, conflicts, deadLetters, failed } = await consumer.run();
    const counts = [processed, duplicates, conflicts, deadLetters, failed].join(', ');
    const expected = [load.messages, load.events - load.messages, 0, 0, 0].join(', ');
    if (counts !== expected) throw new Error(`the summary says ${counts} instead of ${expected}`);
  };
}
