import { writeFileSync } from 'node:fs';
import type { Reporter, TestModule } from 'vitest/node';

/** What a run came to. Written to the file that NEVERTWICE_COUNT names, for `npm test` to add up. */
export interface Count {
  readonly passed: number;
  /** Tests, and also files that could not be loaded, set-ups that failed, and errors outside any test. */
  readonly failed: number;
  /** Full names. */
  readonly skipped: readonly string[];
}

export default class CountReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[]): void {
    let passed = 0;
    let failed = unhandled.length;
    const skipped: string[] = [];
    for (const module of modules) {
      failed += module.errors().length;
      for (const suite of module.children.allSuites()) failed += suite.errors().length;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state === 'passed') passed += 1;
        else if (state === 'failed') failed += 1;
        else skipped.push(`${module.relativeModuleId} > ${test.fullName}`);
      }
    }
    const file = process.env.NEVERTWICE_COUNT;
    if (file !== undefined) writeFileSync(file, JSON.stringify({ passed, failed, skipped } satisfies Count));
  }
}
