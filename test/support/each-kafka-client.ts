import { describe, test } from 'vitest';
import { CLIENTS, type TestClient } from './kafka-clients.ts';

/** The same tests for every client. One that cannot be had here is skipped with its reason; with CI=true that is a failure. */
export function forEachKafkaClient(tests: (client: TestClient) => void): void {
  for (const client of CLIENTS) {
    const { missing } = client;
    describe(client.name, () => {
      if (missing === undefined) tests(client);
      else
        test('can be had', ({ skip }) => {
          if (process.env.CI === 'true') throw new Error(missing);
          skip(missing);
        });
    });
  }
}

/** Those that can be had here: for what takes long and can be done with all of them at once. */
export function availableKafkaClients(): readonly TestClient[] {
  return CLIENTS.filter(({ missing }) => missing === undefined);
}
