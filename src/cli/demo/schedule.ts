import { type Random, seeded } from '../../core/random.ts';
import type { Step } from '../../ports/points.ts';
import type { Payment } from './payment.ts';

/** Where a worker ends itself with SIGKILL: once the point has been passed with this many messages. */
export interface Fuse {
  readonly step: Step;
  readonly edge: 'before' | 'after';
  readonly messages: number;
}

/** From one start of the service to its death. */
export interface Round {
  readonly fuse: Fuse;
  /** Two at once share the partitions, as while a deployment rolls. */
  readonly workers: 1 | 2;
  /** Payments that are sent now for the first time. */
  readonly payments: readonly Payment[];
  /** Ids of earlier payments that the producer sends again, since it did not hear that it had worked. */
  readonly resent: readonly string[];
  /** Ids of earlier payments that the broker hands out again. */
  readonly redelivered: readonly string[];
  /** Acknowledgements that get lost. */
  readonly lostAcks: number;
  /** The broker assigns the partitions anew after this many acknowledgements, while messages are in work. */
  readonly rebalanceAfter: number;
}

export interface Schedule {
  readonly seed: number;
  readonly rounds: readonly Round[];
  readonly payments: readonly Payment[];
}

export const PARTITIONS = 4;
/**
 * New payments a round. However two workers divide them, one of them gets half; and a fuse is shorter than that. So every
 * round ends with a kill, whatever the timing.
 */
const PAYMENTS = 24;
const LONGEST_FUSE = 8;

/**
 * Each of them is where one of the broken services must fail: what was recorded before the effect is lost, what was to
 * be recorded after it is doubled. With these in every schedule that does not hang on luck.
 */
const DECISIVE: readonly Pick<Fuse, 'step' | 'edge'>[] = [
  { step: 'claim', edge: 'after' },
  { step: 'handle', edge: 'after' },
];
const ANYWHERE: readonly Pick<Fuse, 'step' | 'edge'>[] = [
  { step: 'receive', edge: 'after' },
  { step: 'identify', edge: 'after' },
  { step: 'claim', edge: 'before' },
  ...DECISIVE,
  { step: 'handle', edge: 'before' },
  { step: 'record', edge: 'before' },
  { step: 'record', edge: 'after' },
  { step: 'settle', edge: 'before' },
  { step: 'settle', edge: 'after' },
];
const CUSTOMERS = ['ada', 'bela', 'chen', 'dora', 'emre', 'fumi', 'gil', 'hana'];

/** Everything that will go wrong, decided beforehand, so that it is the same for all four services. */
export function scheduleFor(seed: number, kills: number): Schedule {
  const random = seeded(seed);
  const places = random.shuffled([...DECISIVE, ...Array.from({ length: kills - 2 }, () => random.pick(ANYWHERE))]);
  const payments: Payment[] = [];
  const rounds = places.map((place, round): Round => {
    const earlier = payments.map(({ id }) => id);
    const fresh = Array.from({ length: PAYMENTS }, (_, i) => paymentFor(random, payments.length + i));
    payments.push(...fresh);
    return {
      fuse: { ...place, messages: random.between(1, LONGEST_FUSE) },
      workers: random.between(1, 3) === 1 ? 2 : 1,
      payments: fresh,
      resent: [...some(random, earlier, 4), ...(round === 0 ? [fresh[0]!.id] : [])],
      redelivered: some(random, earlier, 3),
      lostAcks: random.between(0, 3),
      rebalanceAfter: random.between(2, LONGEST_FUSE),
    };
  });
  return { seed, rounds, payments };
}

function paymentFor(random: Random, index: number): Payment {
  return {
    id: `payment-${String(index + 1).padStart(4, '0')}`,
    customer: random.pick(CUSTOMERS),
    cents: random.between(100, 99_999),
  };
}

function some(random: Random, ids: readonly string[], most: number): readonly string[] {
  return random.shuffled(ids).slice(0, random.between(0, most));
}
