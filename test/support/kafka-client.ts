import { Kafka, logLevel } from 'kafkajs';

/** A kafkajs client that says nothing on its own and reconnects fast. */
export function testKafka(clientId: string, broker: string, user?: { name: string; password: string }): Kafka {
  return new Kafka({
    clientId,
    brokers: [broker],
    logLevel: logLevel.NOTHING,
    ...(user === undefined ? {} : { sasl: { mechanism: 'plain', username: user.name, password: user.password } }),
    retry: { initialRetryTime: 50, maxRetryTime: 1_000 },
  });
}
