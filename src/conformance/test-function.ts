/**
 * A test runner's `test`: Vitest's, node:test's, Jest's. The suites import none; what they need beyond titles and
 * promises is a way to skip with a reason, which runners hand to the test itself.
 */
export type TestFunction = (title: string, run: (context: TestContext) => Promise<void>) => unknown;

export interface TestContext {
  skip?(reason?: string): unknown;
}
