import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Gate } from '../../src/verify/gate.ts';
import { type HttpOptions, httpPlaces } from '../../src/verify/places/http.ts';
import type { Place } from '../../src/verify/world.ts';
import { endsWithin, until } from '../support/until.ts';
import { Desk } from './desk.ts';

const closing: (() => Promise<unknown> | unknown)[] = [];
let place: Place;
let desk: Desk;
let gate: { readonly proxy: Gate; readonly url: string };

function places(options: Partial<HttpOptions> = {}): ReadonlyMap<string, Place> {
  return httpPlaces({ names: ['BANK_URL'], answers: {}, ignore: [], accept: [], ...options });
}

async function open(options: Partial<HttpOptions> = {}): Promise<void> {
  place = places(options).get('BANK_URL')!;
  desk = new Desk();
  gate = await place.gate(desk.onHeld);
  closing.push(() => gate.proxy.close());
}

beforeEach(() => open());
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

function post(path: string, body: unknown, headers: Record<string, string> = {}, method = 'POST'): Promise<Response> {
  return fetch(gate.url + path, {
    method,
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
}

const rows = async () => (await place.state()).get('http') ?? [];

describe('a request', () => {
  test('is held until it is carried out, and its answer until it is let go', async () => {
    let seen: Response | undefined;
    const response = post('/charges', { amount: 5 }).then(value => {
      seen = value;
    });
    const held = await desk.next();
    expect(held).toMatchObject({
      place: 'http',
      connection: 1,
      text: 'POST /charges {"amount":5}',
      quiet: false,
      gone: false,
    });
    expect(await rows()).toEqual([]);
    expect(await held.send()).toEqual({ text: '200', failed: false });
    expect(await rows()).toEqual([{ method: 'POST', path: '/charges', key: null, 'body.amount': '5' }]);
    expect(seen).toBeUndefined();
    held.answer();
    await response;
    expect(seen!.status).toBe(200);
    expect(await seen!.json()).toEqual({ ok: true });
  });

  test('by fetch uses its connection again, and can be made while another one is held', async () => {
    await desk.all(post('/one', {}).then(response => response.text()));
    const two = post('/two', {}).then(response => response.text());
    const first = await desk.next();
    const three = post('/three', {}).then(response => response.text());
    const second = await desk.next();
    expect([first.connection, second.connection]).toEqual([1, 2]);
    await second.send();
    second.answer();
    await three;
    await first.send();
    first.answer();
    await two;
    expect((await rows()).map(row => row.path)).toEqual(['/one', '/three', '/two']);
  });

  test('cut off before, it was never made', async () => {
    const response = post('/charges', {});
    const held = await desk.next();
    await held.cut();
    await expect(response).rejects.toThrow('fetch failed');
    await until('it is gone', () => held.gone);
    expect(await rows()).toEqual([]);
    await desk.all(post('/charges', {}));
  });

  test('cut off after, it was made and the client cannot know', async () => {
    const response = post('/charges', {});
    const held = await desk.next();
    await held.send();
    await held.cut();
    await expect(response).rejects.toThrow('fetch failed');
    expect(await rows()).toHaveLength(1);
  });

  test('of a dead consumer lands later, or never', async () => {
    const responses = Promise.allSettled([post('/lands', {}), post('/never', {})]);
    const two = [await desk.next(), await desk.next()];
    await gate.proxy.sever(two);
    expect((await responses).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    const lands = two.find(held => held.text.includes('lands'))!;
    const never = two.find(held => held.text.includes('never'))!;
    expect(await lands.land()).toEqual({ text: '200', failed: false });
    await never.drop();
    expect((await rows()).map(row => row.path)).toEqual(['/lands']);
  });

  test('cannot be made once its consumer is severed, until it begins anew', async () => {
    await gate.proxy.sever([]);
    await expect(post('/a', {})).rejects.toThrow('fetch failed');
    gate.proxy.reopen();
    await desk.all(post('/b', {}));
    expect((await rows()).map(row => row.path)).toEqual(['/b']);
  });

  test('that its client has given up is gone', async () => {
    const client = new AbortController();
    const response = fetch(gate.url, { method: 'POST', body: 'x', signal: client.signal });
    const held = await desk.next();
    client.abort();
    await expect(response).rejects.toThrow('aborted');
    await until('it is gone', () => held.gone);
    expect(await rows()).toEqual([]);
  });

  test('of which only a part came is none', async () => {
    const socket = connect(gate.proxy.port, '127.0.0.1');
    socket.end('POST /half HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{"amount"');
    socket.resume();
    await once(socket, 'close');
    expect(await desk.all(post('/whole', {}))).toEqual(['POST /whole {} → 200']);
  });

  test('by the http module comes through as well, with its connection kept', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    closing.push(() => agent.destroy());
    const ask = () =>
      new Promise<string>((resolve, reject) => {
        const asked = request(`${gate.url}/old`, { method: 'PUT', agent }, response => {
          response.setEncoding('utf8');
          let text = '';
          response.on('data', chunk => {
            text += chunk;
          });
          response.on('end', () => resolve(text));
        });
        asked.on('error', reject);
        asked.end('hello');
      });
    const steps = await desk.all(Promise.all([ask(), ask()]));
    expect(steps).toEqual(['PUT /old hello → 200', 'PUT /old hello → 200']);
    expect(await rows()).toEqual([
      { method: 'PUT', path: '/old', key: null, body: 'hello' },
      { method: 'PUT', path: '/old', key: null, body: 'hello' },
    ]);
  });

  test('is told on one line, which is not long', async () => {
    const response = fetch(`${gate.url}/notes?id=${crypto.randomUUID()}`, {
      method: 'POST',
      body: `one\n${'two '.repeat(100)}`,
    });
    const [step] = await desk.all(response);
    expect(step).toMatch(/^POST \/notes\?id=<uuid> one two two .*… → 200$/);
    expect(step!.length).toBeLessThan(180);
  });
});

describe('an effect', () => {
  test('is not what only reads', async () => {
    for (const method of ['GET', 'HEAD', 'OPTIONS']) {
      const response = fetch(`${gate.url}/accounts`, { method });
      expect(await desk.all(response)).toEqual([`${method} /accounts → 200`]);
      expect(await (await response).text()).toBe(method === 'HEAD' ? '' : '{"ok":true}');
    }
    expect(await rows()).toEqual([]);
  });

  test('is a row with the body by columns', async () => {
    await desk.all(post('/a?b=1', { text: 'x', n: 1.5, yes: true, none: null, deep: { list: [1, 2], empty: {} } }));
    await desk.all(
      fetch(`${gate.url}/form`, { method: 'POST', body: new URLSearchParams({ amount: '5', to: 'bob' }) }),
    );
    await desk.all(fetch(`${gate.url}/text`, { method: 'POST', body: '{ not JSON' }));
    await desk.all(fetch(`${gate.url}/gone`, { method: 'DELETE' }));
    await desk.all(post('/list', [1]));
    const without = { method: 'POST', key: null };
    expect(await rows()).toEqual([
      {
        ...without,
        path: '/a?b=1',
        'body.text': 'x',
        'body.n': '1.5',
        'body.yes': 'true',
        'body.none': null,
        'body.deep.list': '[1,2]',
        'body.deep.empty': '{}',
      },
      { ...without, path: '/form', 'body.amount': '5', 'body.to': 'bob' },
      { ...without, path: '/text', body: '{ not JSON' },
      { ...without, path: '/gone', method: 'DELETE' },
      { ...without, path: '/list', body: '[1]' },
    ]);
  });

  test('happens once for each idempotency key, method and path', async () => {
    await open({ answers: { '/charges': { status: 201, body: { id: 'c1' } } } });
    const charge = async (path: string, key: string, method?: string) => {
      const response = post(path, { amount: 5 }, { 'Idempotency-Key': key }, method);
      const [step] = await desk.all(response);
      return [step, await (await response).json()];
    };
    const made = ['POST /charges {"amount":5} (key k1) → 201', { id: 'c1' }];
    expect(await charge('/charges', 'k1')).toEqual(made);
    expect(await charge('/charges', 'k1')).toEqual(made);
    expect(await rows()).toEqual([{ method: 'POST', path: '/charges', key: 'k1', 'body.amount': '5' }]);
    await charge('/charges', 'k2');
    await charge('/refunds', 'k1');
    await charge('/charges', 'k1', 'PUT');
    expect(await rows()).toHaveLength(4);
  });

  test('is refused for another body under the same key', async () => {
    await desk.all(post('/charges', { amount: 5 }, { 'idempotency-key': 'k1' }));
    expect(await desk.all(post('/charges', { amount: 6 }, { 'idempotency-key': 'k1' }))).toEqual([
      'POST /charges {"amount":6} (key k1) → 422',
    ]);
    expect(await rows()).toHaveLength(1);
  });

  test('is none of a request that is refused', async () => {
    await open({ answers: { '/broken': { status: 503, body: 'later' } } });
    const response = post('/broken', {});
    const held = await desk.next();
    expect(await held.send()).toEqual({ text: '503', failed: true });
    held.answer();
    expect(await (await response).text()).toBe('later');
    expect(await rows()).toEqual([]);
  });

  test('is forgotten with its key by a reset', async () => {
    const charge = () => desk.all(post('/charges', {}, { 'idempotency-key': 'k1' }));
    await charge();
    await place.reset();
    expect(await place.state()).toEqual(new Map());
    await charge();
    expect(await rows()).toHaveLength(1);
  });

  test('is not seen on ignored paths, and counted apart on accepted ones', async () => {
    await open({ ignore: ['http /metrics/*', 'audit'], accept: ['http /mail'] });
    for (const path of ['/metrics/a', '/mail?to=bob', '/charges']) await desk.all(post(path, {}));
    const state = await place.state();
    expect([...state.keys()]).toEqual(['http /mail', 'http']);
    expect(state.get('http /mail')).toEqual([{ method: 'POST', path: '/mail?to=bob', key: null, body: '{}' }]);
    expect((await rows()).map(row => row.path)).toEqual(['/charges']);
  });

  test('says to which of several services it went, and all share one list', async () => {
    const both = places({ names: ['BANK_URL', 'MAIL_URL'] });
    const steps: string[] = [];
    for (const one of both.values()) {
      const { proxy, url } = await one.gate(desk.onHeld);
      closing.push(() => proxy.close());
      steps.push(...(await desk.all(fetch(`${url}/v1`, { method: 'POST', headers: { 'idempotency-key': 'k' } }))));
    }
    expect(steps).toHaveLength(2);
    const [bank, mail] = [...both.values()];
    expect((await bank!.state()).get('http')).toEqual([
      { to: 'BANK_URL', method: 'POST', path: '/v1', key: 'k' },
      { to: 'MAIL_URL', method: 'POST', path: '/v1', key: 'k' },
    ]);
    expect(await mail!.state()).toEqual(new Map());
  });
});

describe('an answer', () => {
  test.each([
    [{ '/charges': { status: 201, body: { id: 1 } } }, 201, '{"id":1}', 'application/json'],
    [{ 'POST /charges': { body: 'done' } }, 200, 'done', 'text/plain; charset=utf-8'],
    [{ 'GET /charges': { status: 500 } }, 200, '{"ok":true}', 'application/json'],
    [{ '/char*': { status: 204 } }, 204, '', null],
    [{ '/other': { status: 500 } }, 200, '{"ok":true}', 'application/json'],
  ])('is as the fixture says: %j', async (answers, status, body, type) => {
    await open({ answers });
    const asked = post('/charges?x=1', {});
    await desk.all(asked);
    const response = await asked;
    expect([response.status, await response.text(), response.headers.get('content-type')]).toEqual([
      status,
      body,
      type,
    ]);
  });

  test('leaves the connection open for as long as the client likes', async () => {
    await desk.all(post('/a', {}).then(response => response.text()));
    const response = post('/b', {});
    const held = await desk.next();
    expect(held.connection).toBe(1);
    await held.send();
    held.answer();
    expect((await response).headers.get('keep-alive')).toBeNull();
    await endsWithin(1_000, 'the gate closes', gate.proxy.close());
  });
});
