import { randomUUID } from 'node:crypto';
import { Consumer, type Message, type MessagesStream, stringDeserializer } from '@platformatic/kafka';
import { BATCH } from '../../sql/load.ts';
import { COMMIT_EVERY_MS, MAX_WAIT_MS, PARTITIONS, type Reader, type Work } from '../reader.ts';
import { Gathered } from './gathered.ts';

export type PlatformaticMessage = Message<Buffer, Buffer, string, string>;
type Stream = MessagesStream<Buffer, Buffer, string, string>;

/** Twice what a fetch brings, as ours has it. */
const WAITING = PARTITIONS * 2_000;

/**
 * One stream of single messages for all partitions. Its automatic commits would cover what nobody has worked on yet, and
 * its default mode would pass over what the group has committed: both are set otherwise.
 */
export function platformaticReader(broker: string): Reader<PlatformaticMessage> {
  return {
    idOf: ({ headers }) => headers.get('message-id')!,
    valueOf: ({ value }) => String(value),
    async read(topic, work, failed) {
      const consumer = new Consumer<Buffer, Buffer, string, string>({
        clientId: 'bench',
        bootstrapBrokers: [broker],
        groupId: randomUUID(),
        autocommit: false,
        maxWaitTime: MAX_WAIT_MS,
        maxBytesPerPartition: 1_048_576,
        deserializers: {
          headerKey: data => stringDeserializer(data)!,
          headerValue: data => stringDeserializer(data)!,
        },
      });
      const stream = await consumer.consume({ topics: [topic], mode: 'committed', fallbackMode: 'earliest' });
      stream.on('error', failed);
      const due = worked(stream, work, failed);
      const commit = async () => {
        const offsets = [...due.values()].map(({ partition, offset, leaderEpoch }) => ({
          topic,
          partition,
          offset: offset + 1n,
          leaderEpoch,
        }));
        due.clear();
        if (offsets.length > 0) await consumer.commit({ offsets });
      };
      const committing = setInterval(() => void commit().catch(failed), COMMIT_EVERY_MS);
      return async () => {
        clearInterval(committing);
        await stream.close();
        await commit();
        await consumer.close();
      };
    },
  };
}

/** The last message of each partition that was worked on and is not committed. */
function worked(
  stream: Stream,
  work: Work<PlatformaticMessage>,
  failed: (error: unknown) => void,
): Map<number, PlatformaticMessage> {
  const due = new Map<number, PlatformaticMessage>();
  const one = 'eachMessage' in work;
  const gathered = new Gathered<PlatformaticMessage>(one ? 1 : BATCH, async (partition, messages) => {
    if (stream.isPaused() && gathered.waiting < WAITING / 2) stream.resume();
    try {
      await (one ? work.eachMessage(messages[0]!) : work.eachBatch(partition, messages));
    } catch (error) {
      failed(error);
      throw error;
    }
    due.set(partition, messages.at(-1)!);
  });
  stream.on('data', message => {
    gathered.add(message);
    if (gathered.waiting >= WAITING) stream.pause();
  });
  return due;
}
