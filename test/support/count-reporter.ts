import { writeFileSync } from 'node:fs';
import type { Reporter, TestModule, TestResult } from 'vitest/node';

/** What a run came to. Written to the file that NEVERTWICE_COUNT names, for `npm test` to add up. */
export interface Count {
  readonly passed: number;
  /** Tests, and also files that could not be loaded, set-ups that failed, and errors outside any test. */
  readonly failed: number;
  /** Full names, with the reason where `skip` was given one. */
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
        const result = test.result();
        if (result.state === 'passed') passed += 1;
        else if (result.state === 'failed') failed += 1;
        else skipped.push(`${module.relativeModuleId} > ${test.fullName}${noteOf(result)}`);
      }
    }
    const file = process.env.NEVERTWICE_COUNT;
    if (file !== undefined) writeFileSync(file, JSON.stringify({ passed, failed, skipped } satisfies Count));
  }
}

function noteOf(result: TestResult): string {
  return result.state === 'skipped' && result.note !== undefined ? ` [${result.note}]` : '';
}
