import { writeFileSync } from 'node:fs';
import type { Reporter, TestModule, TestResult } from 'vitest/node';

/** What a run came to. Written to the file that NEVERTWICE_COUNT names, for `npm test` to add up. */
export interface Count {
  readonly passed: number;
  /**
   * Full name and the first line of what was wrong: of tests, and also of files that could not be loaded, set-ups that
   * failed, and errors outside any test.
   */
  readonly failed: readonly string[];
  /** Full names, with the reason where `skip` was given one. */
  readonly skipped: readonly string[];
}

export default class CountReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[]): void {
    let passed = 0;
    const failed = unhandled.map(error => `outside any test${firstLine([error])}`);
    const skipped: string[] = [];
    for (const module of modules) {
      const errors = [module, ...module.children.allSuites()].flatMap(part => part.errors());
      failed.push(...errors.map(error => `${module.relativeModuleId}${firstLine([error])}`));
      for (const test of module.children.allTests()) {
        const result = test.result();
        if (result.state === 'passed') passed += 1;
        else {
          const name = `${module.relativeModuleId} > ${test.fullName}`;
          if (result.state === 'failed') failed.push(`${name}${firstLine(result.errors)}`);
          else skipped.push(`${name}${noteOf(result)}`);
        }
      }
    }
    const file = process.env.NEVERTWICE_COUNT;
    if (file !== undefined) writeFileSync(file, JSON.stringify({ passed, failed, skipped } satisfies Count));
  }
}

function firstLine(errors: readonly unknown[]): string {
  const message = (errors[0] as { readonly message?: unknown } | undefined)?.message;
  return typeof message === 'string' ? `: ${message.split('\n', 1)[0]}` : '';
}

function noteOf(result: TestResult): string {
  return result.state === 'skipped' && result.note !== undefined ? ` [${result.note}]` : '';
}
