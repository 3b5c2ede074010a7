import { test } from 'vitest';
import { redisStore } from '../../src/stores/redis/index.ts';
import { redisUrl } from '../support/redis.ts';
import { until } from '../support/until.ts';
import { checkLeaseMachine } from './lease-model.ts';
import { freshPrefix, singleClients } from './redis-clients.ts';

test.for(singleClients)('the lease machine does what its model says, with $name', async kind => {
  const client = await kind.connect(redisUrl());
  const serverMs = async () => {
    const [seconds, micros] = (await client.command('TIME')) as [string, string];
    return Number(seconds) * 1_000 + Number(micros) / 1_000;
  };
  const passTime = async (ms: number) => {
    const from = await serverMs();
    await until('the server has moved on', async () => (await serverMs()) > from + ms);
  };
  try {
    await checkLeaseMachine(60, async () => {
      const store = redisStore(client.port, { prefix: freshPrefix() });
      return { store, passTime, completesAgain: true };
    });
  } finally {
    await client.end();
  }
});
