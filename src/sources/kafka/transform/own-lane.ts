import { backoffMs } from '../../../core/backoff.ts';
import { onAbort } from '../../../core/on-abort.ts';
import { describeError, NevertwiceError } from '../../../errors.ts';
import type { LogState } from '../../../ports/log.ts';
import { ProducerFailure, type TransactionalProducer } from '../producer.ts';
import { BatchWork } from './batch-work.ts';
import { type LaneWork, reach, transactionalIdOf } from './lane-work.ts';

const PAUSES = { minMs: 100, maxMs: 10_000 };
/** A member that is out of its group hears so with a heartbeat, within seconds. With these pauses it has half a minute. */
const MAX_FENCES = 8;
/** Two that fence each other do so again within seconds. */
const UNRELATED_MS = 300_000;

/**
 * Works on a partition until it is taken away, the consumer stops, or a transaction fails; then the lane begins anew, from
 * what the group has committed by then. Nothing is ever sent again on the strength of what this process remembers.
 */
export async function ownLane(work: LaneWork): Promise<void> {
  let producer: TransactionalProducer | undefined;
  try {
    producer = await open(work);
    if (producer !== undefined) await consume(work, producer);
  } catch (error) {
    if (!(error instanceof ProducerFailure)) throw error;
    await producer?.close();
    producer = undefined;
    await beginAnew(work, error);
  } finally {
    await producer?.close();
  }
}

/**
 * The order is what makes it safe: the new producer settles what its predecessor left open, in this process or in another,
 * and keeps it from committing anything later; only then does the group's offset say what is done.
 */
async function open(work: LaneWork): Promise<TransactionalProducer | undefined> {
  const { settings, member, lane, stopping } = work;
  const { groupId } = settings;
  const opening = settings.producer({ transactionalId: transactionalIdOf(work), groupId, member });
  const producer = await orCutOff(opening, work.cutOff);
  if (producer === undefined) return undefined;
  try {
    await reach(work, 'claim', 'after', []);
    const state = await lane.log!.inspect().catch(error => {
      throw new ProducerFailure('unknown', error);
    });
    if (!stopping.aborted) {
      lane.log!.beginAt(beginningIn(work, state));
      return producer;
    }
  } catch (error) {
    await producer.close();
    throw error;
  }
  await producer.close();
  return undefined;
}

/** A client that cannot reach its broker tries for long, and a stop has its deadline. */
async function orCutOff(
  opening: Promise<TransactionalProducer>,
  cutOff: AbortSignal,
): Promise<TransactionalProducer | undefined> {
  const over = Promise.withResolvers<undefined>();
  const unheard = onAbort(cutOff, () => over.resolve(undefined));
  const producer = await Promise.race([opening, over.promise]);
  unheard();
  if (producer === undefined) {
    opening.then(
      late => late.close(),
      () => undefined,
    );
  }
  return producer;
}

function beginningIn({ settings, lane }: LaneWork, { committed, start, earliest, end }: LogState): bigint {
  if (committed === undefined) return start;
  const { offset } = committed;
  if (offset >= earliest && offset <= end) return offset;
  settings.warn(
    'NT_LOG_CHANGED',
    `${settings.groupId}: ${lane.id} has records from ${earliest} to ${end}, and the group has committed ${offset}: ${
      offset > end ? 'the topic was made again or has lost its end' : 'retention has deleted what was next'
    }; reading on from ${earliest}`,
  );
  return earliest;
}

async function consume(work: LaneWork, producer: TransactionalProducer): Promise<void> {
  const { settings, lane, stopping, inWork } = work;
  const batches = new BatchWork(work, producer);
  while (!stopping.aborted) {
    const deliveries = await lane.receive(settings.maxBatch, stopping);
    const positions = deliveries.map(({ position }) => position!);
    for (const position of positions) inWork.add(position);
    try {
      await batches.process(deliveries);
    } finally {
      for (const position of positions) inWork.delete(position);
    }
  }
}

/** What became of the last transaction, a new producer and the group's offset will tell. */
async function beginAnew(work: LaneWork, failure: ProducerFailure): Promise<void> {
  const { settings, lane, counts, stopping, troubles } = work;
  const { clock, groupId, warn } = settings;
  const reason = describeError(failure.cause);
  if (failure.kind === 'refused') {
    throw new NevertwiceError('NT_CONFIG', `${groupId}: Kafka refuses this producer: ${reason}`, {
      cause: failure.cause,
    });
  }
  const fenced = failure.kind === 'fenced' || failure.kind === 'outdated';
  if (fenced) counts.fenced++;
  // Of a broker that is away everybody hears; a partition that moves while it is in work is everyday life.
  else if (!stopping.aborted) warn('NT_SOURCE_DOWN', `${groupId}: ${lane.id} begins anew: ${reason}`);
  await clock.sleep(backoffMs(++troubles.failures, PAUSES, clock.random()), stopping);
  if (stopping.aborted) return;
  if (failure.kind === 'fenced') assertBounded(work, failure);
  lane.log!.reopen();
}

/** Two that fence each other in turns would do so for ever, each in the belief that the other one is dead. */
function assertBounded(work: LaneWork, { cause }: ProducerFailure): void {
  const { settings, lane, troubles } = work;
  const now = settings.clock.monotonicMs();
  troubles.fences = now - troubles.fencedAtMs > UNRELATED_MS ? 1 : troubles.fences + 1;
  troubles.fencedAtMs = now;
  const text = `${settings.groupId}: another producer uses the transactional id ${transactionalIdOf(work)}, although ${lane.id} is ours in the group`;
  if (troubles.fences > MAX_FENCES) {
    throw new NevertwiceError('NT_CONFIG', `${text}; give each application a transactionalId of its own`, { cause });
  }
  settings.warn('NT_LANE_LOST', text);
}
