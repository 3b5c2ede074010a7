import { test } from 'vitest';
import { sourceSuite } from '../../src/conformance/index.ts';
import { memoryBroker } from '../../src/sources/memory/index.ts';

sourceSuite({
  test,
  name: 'memory',
  capabilities: {
    retryLater: true,
    readAhead: true,
    finite: false,
    countsAttempts: true,
    redelivers: true,
    revokes: true,
    repeatsHeaders: true,
    nul: true,
    binary: true,
  },
  create: async () => {
    const broker = memoryBroker();
    return {
      source: broker.source(),
      send: async messages => {
        for (const { body, ...message } of messages) broker.send({ ...message, value: body });
      },
      redeliverUnsettled: async () => broker.expire(),
      revoke: async () => broker.rebalance(),
      close: async () => {},
    };
  },
});
