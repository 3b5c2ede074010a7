import type { Result } from './contest.ts';
import { kafkaScaleSuite } from './kafka/scale-suite.ts';
import { kafkaSuite } from './kafka/suite.ts';
import { leasesSuite } from './leases/suite.ts';
import { outboxSuite } from './outbox/suite.ts';
import { packageSuite } from './package.ts';
import { sqlSuite } from './sql/suite.ts';
import { verifySuite } from './verify/suite.ts';

export interface BenchOptions {
  /** Few and short rounds: all suites together in about a minute. The ratios are rougher. */
  readonly quick: boolean;
  /** True for the rows that are wanted. */
  readonly wants: (id: string) => boolean;
  /** One line about what is going on, for people. */
  readonly say: (line: string) => void;
}

/** A set of measurements that are made together. A new one is a file and an entry below. */
export interface Suite {
  readonly name: string;
  /** For `--help`, one line. */
  readonly about: string;
  /** Of every row, in order: stable, and explained in README.md. */
  readonly ids: readonly string[];
  /** Only rows that `wants` names. Rejects when an effect is missing or doubled: a wrong result has no speed. */
  run(options: BenchOptions): Promise<readonly Result[]>;
}

export const suites: readonly Suite[] = [
  sqlSuite,
  kafkaSuite,
  kafkaScaleSuite,
  leasesSuite,
  outboxSuite,
  verifySuite,
  packageSuite,
];
