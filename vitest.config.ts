import { defineConfig } from 'vitest/config';
import { suiteGroups } from './test/support/services.ts';

// One project per set of services that test files need, so that `vitest run test/core` starts no server.
export default defineConfig({
  test: {
    pool: 'forks',
    // Many tests cause the library's warnings on purpose and look at the events; printed they would bury a failure.
    execArgv: ['--disable-warning=NevertwiceWarning'],
    // Suites start child processes and talk to a real server: more workers than this measure the machine, not the code.
    maxWorkers: 2,
    slowTestThreshold: 5_000,
    allowOnly: process.env.CI === undefined,
    projects: suiteGroups().map(({ name, files }) => ({
      extends: true,
      test: {
        name,
        include: [...files],
        globalSetup: ['test/support/global-setup.ts'],
        testTimeout: 30_000,
        hookTimeout: 30_000,
      },
    })),
  },
});
