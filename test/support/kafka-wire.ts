import { connect } from 'node:net';

// As much of Kafka's protocol as a server needs to be looked at from outside. A client library retries, waits and
// remembers; here one question is one connection.

const METADATA = 3;
const ASK_WITHIN_MS = 2_000;

export interface KafkaState {
  /** The id that it was formatted with. */
  readonly cluster: string;
  /** How many brokers take part. None while the only one is still starting. */
  readonly brokers: number;
  /** Of each topic, the broker that leads each partition: -1 for nobody. */
  readonly topics: ReadonlyMap<string, readonly number[]>;
}

/** What a broker (`host:port`) knows of the cluster. */
export async function kafkaState(broker: string): Promise<KafkaState> {
  const allTopics = Buffer.from([0xff, 0xff, 0xff, 0xff]);
  const answer = reader(await askKafka(broker, METADATA, 2, allTopics));
  const brokers = answer.list(() => {
    answer.int32();
    answer.string();
    answer.int32();
    return answer.string();
  });
  const cluster = answer.string();
  answer.int32();
  const topics = answer.list(() => {
    answer.int16();
    const name = answer.string();
    answer.int8();
    const leaders = answer.list(() => {
      answer.int16();
      answer.int32();
      const leader = answer.int32();
      answer.list(answer.int32);
      answer.list(answer.int32);
      return leader;
    });
    return [name, leaders] as const;
  });
  return { cluster, brokers: brokers.length, topics: new Map(topics) };
}

/** Sends one request of a version without tagged fields, and gives the body of the response. */
export function askKafka(broker: string, key: number, version: number, body: Buffer): Promise<Buffer> {
  const header = Buffer.alloc(14);
  header.writeInt32BE(header.length - 4 + body.length, 0);
  header.writeInt16BE(key, 4);
  header.writeInt16BE(version, 6);
  header.writeInt16BE(-1, 12);
  const [host = '', port = ''] = broker.split(':');
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), host, () => socket.write(Buffer.concat([header, body])));
    let received = Buffer.alloc(0);
    socket.setTimeout(ASK_WITHIN_MS, () => socket.destroy(new Error(`${broker} does not answer`)));
    socket.on('data', chunk => {
      received = Buffer.concat([received, chunk]);
      if (received.length < 4 || received.length < 4 + received.readInt32BE(0)) return;
      resolve(received.subarray(8));
      socket.destroy();
    });
    socket.on('error', reject);
    socket.on('close', () => reject(new Error(`${broker} closed the connection`)));
  });
}

function reader(bytes: Buffer) {
  let at = 0;
  const skip = (length: number) => {
    at += length;
    return at - length;
  };
  const int8 = () => bytes.readInt8(skip(1));
  const int16 = () => bytes.readInt16BE(skip(2));
  const int32 = () => bytes.readInt32BE(skip(4));
  return {
    int8,
    int16,
    int32,
    string() {
      // -1 for none.
      const start = skip(Math.max(int16(), 0));
      return bytes.toString('utf8', start, at);
    },
    list: <T>(item: () => T): T[] => Array.from({ length: int32() }, item),
  };
}
