import { anyOf } from '../../../core/on-abort.ts';
import { NevertwiceError } from '../../../errors.ts';
import { KafkaGroup } from '../group.ts';
import type { KafkaLane } from '../lane.ts';
import type { Troubles } from './lane-work.ts';
import { ownLane } from './own-lane.ts';
import { resolveTransform } from './settings.ts';
import type { KafkaTransform, KafkaTransformOptions, TransformRunOptions, TransformSummary } from './types.ts';

interface Running {
  readonly done: Promise<TransformSummary>;
  readonly stop: AbortController;
  readonly cutOff: AbortController;
  readonly inWork: ReadonlySet<string>;
  readonly abandoned: string[];
}

/**
 * Reads topics, makes records of what it reads, and writes them to other topics, each record's outputs exactly once as seen by
 * readers with `read_committed`: the outputs of a batch and the offset behind it are one Kafka transaction. Does nothing until
 * `run`.
 *
 * `transform` itself may run again for the same record, so what it does elsewhere, such as a write to a database, is done again
 * then: that is no part of the transaction. One producer and one transactional id for each partition.
 *
 * @throws NevertwiceError NT_CONFIG for wrong options, or a client whose wrapper has no transactions
 */
export function kafkaTransform<Body = unknown>(options: KafkaTransformOptions<Body>): KafkaTransform {
  const settings = resolveTransform(options);
  const counts: TransformSummary = { processed: 0, produced: 0, deadLetters: 0, failed: 0, fenced: 0 };
  let running: Running | undefined;

  async function work(
    { points }: TransformRunOptions,
    stop: AbortController,
    cutOff: AbortController,
    inWork: Set<string>,
  ): Promise<TransformSummary> {
    const { client, groupId, topics, from, limits, clock } = settings;
    const group = new KafkaGroup(limits, clock);
    const lanes = new Set<Promise<void>>();
    const troublesOf = new Map<string, Troubles>();
    let broken: { readonly error: unknown } | undefined;
    const breakOff = (error: unknown) => {
      broken ??= { error };
      stop.abort();
    };
    try {
      const member = stop.signal.aborted ? undefined : await client.join({ groupId, topics, from }, group);
      if (member !== undefined) group.joined(member);
      const start = (lane: KafkaLane) => {
        const stopping = anyOf([stop.signal, lane.leaving]);
        const cutting = anyOf([cutOff.signal, lane.revoked]);
        const troubles = troublesOf.get(lane.id) ?? { failures: 0, fences: 0, fencedAtMs: 0 };
        troublesOf.set(lane.id, troubles);
        const ended: Promise<void> = ownLane({
          settings,
          member: member!,
          lane,
          counts,
          stopping: stopping.signal,
          cutOff: cutting.signal,
          points,
          inWork,
          troubles,
        })
          .catch(breakOff)
          .finally(() => {
            stopping.release();
            cutting.release();
            lanes.delete(ended);
            lane.ended();
          });
        lanes.add(ended);
      };
      for (let lane = await group.nextLane(stop.signal); lane !== undefined; lane = await group.nextLane(stop.signal)) {
        start(lane as KafkaLane);
      }
    } catch (error) {
      breakOff(error);
    }
    await Promise.all(lanes);
    await group.leave();
    if (broken !== undefined) throw broken.error;
    return { ...counts };
  }

  return {
    name: settings.groupId,
    summary: counts,
    async run(run = {}) {
      if (running !== undefined) {
        throw new NevertwiceError('NT_CONFIG', `the transform of ${settings.groupId} is already running`);
      }
      const stop = new AbortController();
      const cutOff = new AbortController();
      const inWork = new Set<string>();
      const onAbort = () => stop.abort();
      if (run.signal?.aborted) onAbort();
      run.signal?.addEventListener('abort', onAbort, { once: true });
      const done = work(run, stop, cutOff, inWork).finally(() => {
        run.signal?.removeEventListener('abort', onAbort);
        running = undefined;
      });
      running = { done, stop, cutOff, inWork, abandoned: [] };
      return done;
    },
    async stop({ withinMs } = {}) {
      if (running === undefined) return { abandoned: [] };
      const { done, stop, cutOff, inWork, abandoned } = running;
      stop.abort();
      const atDeadline = () => {
        if (cutOff.signal.aborted) return;
        abandoned.push(...inWork);
        cutOff.abort(
          new NevertwiceError(
            'NT_STOPPED',
            `the transform of ${settings.groupId} was stopped; what was in work is aborted`,
          ),
        );
      };
      const timer = withinMs === undefined ? undefined : setTimeout(atDeadline, withinMs);
      await done.then(
        () => undefined,
        () => undefined,
      );
      clearTimeout(timer);
      return { abandoned: [...abandoned] };
    },
  };
}
