import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  createInbox,
  createOutbox,
  createRelay,
  type Destination,
  httpDestination,
  inboxDestination,
  type OutboxMessage,
} from '../../src/index.ts';
import { until } from '../support/until.ts';
import { backends, credit, type WalletStore } from '../support/wallet.ts';
import { isEmpty, whileRunning } from './support.ts';

const sqlite = backends.find(({ name }) => name === 'SQLite')!;
const postgres = backends.find(({ name }) => name === 'PostgreSQL, pipelined')!;

let from: WalletStore;
beforeEach(async () => {
  from = await sqlite.create();
  await from.store.outbox.open();
});
afterEach(() => from.drop());

async function add(...messages: readonly OutboxMessage[]): Promise<void> {
  const outbox = createOutbox({ store: from.store });
  for (const message of messages) await from.store.transaction(tx => outbox.add(tx, message));
}
const relayTo = (destination: Destination) =>
  createRelay({ store: from.store, destination, pollMs: 20, backoff: { minMs: 1, maxMs: 20 }, maxAttempts: 3 });
const allOut = () => until('all is out', () => isEmpty(from.store));

describe('HTTP', () => {
  interface Seen {
    readonly headers: IncomingMessage['headers'];
    readonly body: string;
  }
  let server: Server;
  let seen: Seen[];
  let answer: (request: Seen, nth: number) => number;
  let url: string;

  beforeEach(async () => {
    seen = [];
    answer = () => 202;
    server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', chunk => chunks.push(chunk));
      request.on('end', () => {
        const one = { headers: request.headers, body: Buffer.concat(chunks).toString('latin1') };
        seen.push(one);
        response.writeHead(answer(one, seen.length)).end('a body that nobody reads');
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
  });
  afterEach(() => {
    server.closeAllConnections();
    server.close();
  });

  test('each message is one request with its id, key and rising sequence; the endpoint can tell repeats', async () => {
    await add(
      { topic: 'orders ü', key: 'k/1', id: 'm1', headers: { trace: 't1' }, payload: { a: 'ß' } },
      { topic: 'orders ü', key: 'k/1', payload: Uint8Array.from([0, 255]) },
    );
    // The first answer of each is lost on the way.
    answer = (_, nth) => (nth === 1 ? 503 : 200);
    await whileRunning(relayTo(httpDestination({ url, headers: { authorization: 'Bearer s3cret' } })), allOut);
    expect(seen).toHaveLength(3);
    const [first, again, second] = seen as [Seen, Seen, Seen];
    expect(again).toEqual({
      headers: expect.objectContaining({ 'message-sequence': first.headers['message-sequence'] }),
      body: first.body,
    });
    expect(first.headers).toMatchObject({
      'message-id': 'm1',
      'idempotency-key': 'm1',
      'message-topic': 'orders%20%C3%BC',
      'message-key': 'k%2F1',
      trace: 't1',
      authorization: 'Bearer s3cret',
      'content-type': 'application/json',
    });
    expect(JSON.parse(Buffer.from(first.body, 'latin1').toString())).toEqual({ a: 'ß' });
    expect(second.headers['content-type']).toBe('application/octet-stream');
    expect(second.body).toBe('\0\xff');
    expect(Number(second.headers['message-sequence'])).toBeGreaterThan(Number(first.headers['message-sequence']));
  });

  test.each([401, 403, 404, 408, 429, 502, 503, 504])('%i pauses the relay, and no try is counted', async status => {
    await add({ topic: 't', payload: 1 });
    answer = (_, nth) => (nth < 6 ? status : 204);
    const relay = relayTo(httpDestination({ url }));
    await whileRunning(relay, allOut);
    expect(relay.summary).toMatchObject({ published: 1, refused: 0, outages: 5 });
  });

  test.each([400, 409, 413, 422, 500, 302])(
    '%i is a refused try, and in the end the message is parked',
    async status => {
      await add({ topic: 't', key: 'bad', payload: 1 }, { topic: 't', key: 'good', payload: 2 });
      answer = ({ body }) => (body === '1' ? status : 204);
      const relay = relayTo(httpDestination({ url }));
      await whileRunning(relay, allOut);
      expect(relay.summary).toMatchObject({ published: 1, refused: 3, parked: 1 });
      expect(await from.store.outbox.parked(9)).toMatchObject([{ reason: `the endpoint answered ${status}` }]);
    },
  );

  test('an endpoint that is not there pauses the relay; secrets are in no message', async () => {
    server.close();
    const gone = relayTo(httpDestination({ url, headers: { authorization: 'Bearer s3cret' } }));
    await add({ topic: 't', payload: 1 });
    await whileRunning(gone, () => until('it waits', () => gone.summary.outages > 2));
    expect(gone.summary).toMatchObject({ published: 0, refused: 0 });
  });

  test('an id that is no header parks the message at once, by name', async () => {
    await add({ topic: 't', id: 'ключ', payload: 1 });
    await whileRunning(relayTo(httpDestination({ url })), allOut);
    expect(await from.store.outbox.parked(9)).toMatchObject([
      { attempts: 1, reason: expect.stringContaining('message-id') },
    ]);
  });
});

describe('another database’s inbox', () => {
  let to: WalletStore;
  beforeEach(async () => {
    to = await postgres.create();
  });
  afterEach(() => to.drop());

  test('takes effect once there, whatever the relay repeats', async () => {
    await add(
      ...Array.from({ length: 30 }, (_, n) => ({ topic: 'credit', key: `k${n % 3}`, payload: { amount: 10, n } })),
    );
    const inbox = createInbox({ name: 'bank', store: to.store });
    let handled = 0;
    const destination = inboxDestination({
      inbox,
      handle: async (message, context) => {
        if (++handled % 7 === 0) throw new Error('now and then');
        expect([message.type, message.headers.get('message-id')]).toEqual(['credit', message.id]);
        await credit(context, message.body.amount);
      },
    });
    // Each answer may be lost on the way back.
    let lost = 0;
    const lossy: Destination = {
      name: 'lossy',
      publish: async (message, context) => {
        await destination.publish!(message, context);
        if (++lost % 5 === 0) throw Object.assign(new Error('gone'), { code: 'ECONNRESET' });
      },
    };
    await whileRunning(relayTo(lossy), allOut);
    expect(await to.balance()).toBe(300);
    expect(await to.inboxRows()).toBe(30);
  });
});
