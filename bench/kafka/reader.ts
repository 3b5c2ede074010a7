import type { TopicLoad } from './load.ts';

/** Partitions of a topic of the contests, and how many of them everybody works on at a time. */
export const PARTITIONS = 4;

/** How long a broker may hold back an empty answer, for everybody: ours asks for the same. */
export const MAX_WAIT_MS = 100;

/** Offsets are committed this often by hand, after the work on what they cover; and once more on leaving. */
export const COMMIT_EVERY_MS = 1_000;

/** Either is called for one thing of a partition at a time, and for several partitions side by side. */
export type Work<M> =
  | { eachMessage(message: M): Promise<void> }
  | { eachBatch(partition: number, messages: readonly M[]): Promise<void> };

/** A client as a skilled engineer uses it, without this library. `M` is the client's own message: nobody pays for a copy. */
export interface Reader<M> {
  idOf(message: M): string;
  /** JSON. */
  valueOf(message: M): string;
  /** Joins a new group that reads the topic from its beginning; resolves with how to leave it. Batches have at most 500. */
  read(topic: string, work: Work<M>, failed: (error: unknown) => void): Promise<() => Promise<void>>;
}

/** Resolves once every record of the topic was worked on and the group is left: joining and leaving count, as they do for ours. */
export async function readAll<M>(reader: Reader<M>, load: TopicLoad, work: Work<M>): Promise<void> {
  const all = Promise.withResolvers<void>();
  let read = 0;
  // Not left to the client: one of them logs what is thrown here and tries again at once, for ever.
  const counted = async (records: number, working: Promise<void>) => {
    try {
      await working;
    } catch (error) {
      all.reject(error);
      throw error;
    }
    read += records;
    if (read >= load.events) all.resolve();
  };
  const leave = await reader.read(
    load.topic,
    'eachMessage' in work
      ? { eachMessage: message => counted(1, work.eachMessage(message)) }
      : { eachBatch: (partition, messages) => counted(messages.length, work.eachBatch(partition, messages)) },
    all.reject,
  );
  try {
    await all.promise;
  } finally {
    await leave();
  }
}
