import { describeError, NevertwiceError } from '../../../errors.ts';
import type { JoinOptions, KafkaClient, MemberEvents } from '../client.ts';
import { isMissing, startError } from './platformatic/errors.ts';
import { PlatformaticMember } from './platformatic/member.ts';
import { PlatformaticTransactions } from './platformatic/producer.ts';
import { PlatformaticPublisher } from './platformatic/publisher.ts';
import type { PlatformaticLike } from './platformatic/wire.ts';

export type { PlatformaticProducerLike } from './platformatic/producer.ts';
export type { PlatformaticLike } from './platformatic/wire.ts';

/** What `new Consumer(…)` takes, without the group, which is the source's to name. */
export type PlatformaticOptions<M extends PlatformaticLike> = Without<
  ConstructorParameters<M['Consumer']>[0],
  'groupId' | 'autocommit'
>;

/** Of each member of a union by itself: `Omit` would leave what all of them have in common. */
type Without<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;

/**
 * `@platformatic/kafka` 2, given as a whole, since it has no object that stands for a cluster:
 * `platformatic(kafka, { clientId, bootstrapBrokers })` after `import * as kafka from '@platformatic/kafka'`. TLS and SASL
 * are among the options and are handed on as they are.
 *
 * Membership and connections are the client's; its stream of messages is not used, so neither its automatic commits nor its
 * `latest` mode can happen. A rebalance is held back until what is in work has ended, for at most two thirds of
 * `sessionTimeout` and ten seconds. Other defaults than its own: `maxWaitTime` 100 ms, `maxBytes` 10 MiB and
 * `maxBytesPerPartition` 1 MiB. `clientRack` has no effect on fetches. Only the classic group protocol.
 */
export function platformatic<M extends PlatformaticLike>(kafka: M, options: PlatformaticOptions<M>): KafkaClient {
  return {
    name: '@platformatic/kafka',
    async join(joining, events) {
      const member = memberOf(kafka, options as Readonly<Record<string, unknown>>, joining, events);
      try {
        await member.start();
      } catch (error) {
        await member.leave().catch(() => undefined);
        throw isMissing(error) ? missingTopic(joining, error) : startError(error);
      }
      return member;
    },
    producer(producing) {
      const own = options as Readonly<Record<string, unknown>>;
      return new PlatformaticTransactions(kafka, own, producing, producing.member as PlatformaticMember).open();
    },
    async publisher({ transactionalId }) {
      return new PlatformaticPublisher(kafka, options as Readonly<Record<string, unknown>>, transactionalId);
    },
  };
}

function memberOf(
  kafka: PlatformaticLike,
  options: Readonly<Record<string, unknown>>,
  joining: JoinOptions,
  events: MemberEvents,
): PlatformaticMember {
  if (options.groupProtocol !== undefined && options.groupProtocol !== 'classic') {
    throw new NevertwiceError(
      'NT_CONFIG',
      'the client says nothing of the partitions that it loses under this groupProtocol; leave it out, or use another client',
    );
  }
  try {
    return new PlatformaticMember(kafka, options, joining, events);
  } catch (error) {
    throw new NevertwiceError('NT_CONFIG', `@platformatic/kafka refuses its options: ${describeError(error)}`, {
      cause: error,
    });
  }
}

function missingTopic({ topics }: JoinOptions, cause: unknown): NevertwiceError {
  return new NevertwiceError(
    'NT_CONFIG',
    `one of the topics ${topics.join(', ')} does not exist on this broker; create it or correct its name`,
    { cause },
  );
}
