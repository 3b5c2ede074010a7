import { contentCases } from './source/content.ts';
import { laneCases } from './source/lane.ts';
import { receiveCases } from './source/receive.ts';
import { settleCases } from './source/settle.ts';
import { checkWith, type SourceHarness, type SourceSuiteCapabilities } from './source/support.ts';
import type { TestFunction } from './test-function.ts';

export type { SourceHarness, SourceSuiteCapabilities, SuiteMessage } from './source/support.ts';

export interface SourceSuiteOptions {
  /** The runner's `test`. */
  readonly test: TestFunction;
  /** Starts each title. */
  readonly name: string;
  readonly capabilities: SourceSuiteCapabilities;
  /** The real source, empty, for one test. */
  readonly create: () => Promise<SourceHarness>;
  /** Longest time to wait for anything that has to come, in milliseconds; only failing tests need it. Default 10,000. */
  readonly boundMs?: number;
}

/**
 * Registers what every source must do, verb by verb of the port, on the real thing. What the capabilities exclude is
 * skipped with its reason.
 *
 *     sourceSuite({ test, name: 'kafka', capabilities, create: async () => ({ source, send, close }) });
 */
export function sourceSuite({ test, name, capabilities, create, boundMs = 10_000 }: SourceSuiteOptions): void {
  const check = checkWith(test, name, create, boundMs);
  receiveCases(check, capabilities);
  settleCases(check, capabilities);
  laneCases(check, capabilities);
  contentCases(check, capabilities);
}
