import * as platformaticKafka from '@platformatic/kafka';
import { Kafka, logLevel } from 'kafkajs';
import { confluent, type KafkaClient, kafkajs, platformatic } from '../../src/sources/kafka/index.ts';
import { confluentMissing, testConfluent } from '../../test/support/confluent-client.ts';
import type { Reader } from './reader.ts';
import { type ConfluentByHand, confluentReader } from './readers/confluent.ts';
import { kafkajsReader } from './readers/kafkajs.ts';
import { platformaticReader } from './readers/platformatic.ts';

/** A client, used by hand and through this library, on the same broker. */
export interface BenchClient {
  readonly name: string;
  /** Why it cannot be had here, in words that help; undefined when it can. */
  readonly missing?: string | undefined;
  byHand(broker: string): Reader<any>;
  ours(broker: string): KafkaClient;
}

const kafkaJs = (broker: string) => new Kafka({ clientId: 'bench', brokers: [broker], logLevel: logLevel.NOTHING });

export const CLIENTS: readonly BenchClient[] = [
  {
    name: 'kafkajs',
    byHand: broker => kafkajsReader(kafkaJs(broker)),
    ours: broker => kafkajs(kafkaJs(broker)),
  },
  {
    name: 'confluent',
    missing: confluentMissing(),
    byHand: broker => confluentReader(testConfluent(broker) as unknown as ConfluentByHand),
    ours: broker => confluent(testConfluent(broker)),
  },
  {
    name: 'platformatic',
    byHand: broker => platformaticReader(broker),
    ours: broker => platformatic(platformaticKafka, { clientId: 'bench', bootstrapBrokers: [broker] }),
  },
];

export function clientNamed(name: string): BenchClient {
  const found = CLIENTS.find(client => client.name === name);
  if (found === undefined) throw new Error(`no client of the bench is called ${name}`);
  return found;
}

/** The clients of which something is wanted and that can be had; says of each other one why it is left out. */
export function availableClients(
  wants: (client: string) => boolean,
  say: (line: string) => void,
): readonly BenchClient[] {
  const wanted = CLIENTS.filter(({ name }) => wants(name));
  for (const { name, missing } of wanted) if (missing !== undefined) say(`${name} is left out: ${missing}`);
  return wanted.filter(({ missing }) => missing === undefined);
}
