// `npm run kafka`: a broker on 127.0.0.1:9092, or on the port that is the first argument, until Ctrl-C. Its data goes
// with it.
import { startKafka } from '../../test/support/kafka-server.ts';
import { KAFKA_VERSION, kafkaMissing } from './programs.ts';

const port = Number(process.argv[2] ?? 9092);
const missing = await kafkaMissing();
if (!Number.isInteger(port) || port < 1 || port > 65_535) fail('usage: npm run kafka [-- <port>]');
else if (missing !== undefined) fail(missing);
else await run();

async function run(): Promise<void> {
  // Before the start: a Ctrl-C meanwhile must not leave half a broker behind.
  const interrupted = new Promise<void>(done => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => done());
  });
  try {
    const server = await startKafka({ port });
    console.log(`Kafka ${KAFKA_VERSION} on ${server.brokers}; Ctrl-C ends it and deletes its data`);
    // The broker keeps this process alive, so this is called when it has ended by itself.
    const gone = () => fail('the broker has ended');
    process.once('beforeExit', gone);
    await interrupted;
    process.off('beforeExit', gone);
    await server.stop();
  } catch (error) {
    fail((error as Error).message);
  }
}

function fail(reason: string): void {
  console.error(reason);
  process.exitCode = 1;
}
