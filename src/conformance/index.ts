export {
  type SourceHarness,
  type SourceSuiteCapabilities,
  type SourceSuiteOptions,
  type SuiteMessage,
  sourceSuite,
} from './source-suite.ts';
export { leaseStoreSuite, type StoreHarness, type StoreSuiteOptions, storeSuite } from './store-suite.ts';
export type { TestContext, TestFunction } from './test-function.ts';
