import type { Entry, Refusal } from './entry.ts';
import { describeError, NevertwiceError } from './errors.ts';
import { LazyBody, type Route, unusable, validate } from './handlers.ts';
import { type EncodedKey, encodeKey } from './identity/encoding.ts';
import { fingerprintOf } from './identity/fingerprint.ts';
import { checkedId, type RawMessage } from './identity/identity.ts';
import type { Path } from './path.ts';
import type { Delivery, Message } from './ports/delivery.ts';

/**
 * Deliveries to entries: the id, its key, the decoded and validated body, the fingerprint, the route. Does no I/O. What
 * cannot be identified or read is refused here, before any claim and any handler.
 */
export async function identify(path: Path, deliveries: readonly Delivery[]): Promise<Entry[]> {
  const entries: Entry[] = [];
  for (const delivery of deliveries) {
    const made = identifyOne(path, delivery);
    entries.push(made instanceof Promise ? await made : made);
  }
  return entries;
}

/** The id alone. Throws NT_BAD_ID. */
export function idOf(path: Path, delivery: Delivery): string {
  const raw = new Raw(delivery, path.router(delivery.type)?.decode ?? path.decode);
  return checkedId(path.identity, raw, path.normalise);
}

function identifyOne(path: Path, delivery: Delivery): Entry | Promise<Entry> {
  if (delivery.fault !== undefined) return refused(delivery, { kind: 'unreadable', reason: delivery.fault });
  const route = path.router(delivery.type);
  const raw = new Raw(delivery, route?.decode ?? path.decode);
  let id: string;
  try {
    id = checkedId(path.identity, raw, path.normalise);
  } catch (error) {
    return refused(delivery, { kind: 'bad-id', reason: describeError(error) });
  }
  const claim = encodeKey(id);
  if (route === undefined) {
    const type =
      delivery.type === undefined ? 'without a type' : `of type ${JSON.stringify(delivery.type.slice(0, 100))}`;
    return refused(delivery, { kind: 'unknown-type', reason: `no handler for messages ${type}` }, id, claim);
  }
  let body: unknown;
  try {
    body = raw.body;
  } catch (error) {
    return refused(delivery, { kind: 'bad-message', reason: describeError(error) }, id, claim);
  }
  if (route.body === undefined) return ready(path, delivery, route, id, claim, body, body);
  return validate(route.body, body).then(
    valid => ready(path, delivery, route, id, claim, body, valid),
    error => refused(delivery, { kind: 'bad-message', reason: describeError(error) }, id, claim),
  );
}

function ready(
  path: Path,
  delivery: Delivery,
  route: Route,
  id: string,
  claim: EncodedKey,
  sent: unknown,
  valid: unknown,
): Entry {
  const message = messageFrom(delivery, id, valid);
  try {
    claim.fingerprint = fingerprintFor(path, message, sent);
  } catch (error) {
    return refused(delivery, { kind: 'bad-message', reason: describeError(error) }, id, claim);
  }
  return entryFrom(delivery, id, claim, route, undefined, message);
}

function refused(delivery: Delivery, refusal: Refusal, id?: string, claim?: EncodedKey): Entry {
  return entryFrom(delivery, id, claim, undefined, refusal, messageFrom(delivery, id ?? '', undefined));
}

// Of the body as it was sent: a schema may add defaults or today's date, which would make a conflict of every copy.
function fingerprintFor(path: Path, message: Message, body: unknown): string | undefined {
  const { fingerprint } = path.policy;
  // Without a row in the inbox there is nothing to compare with.
  if (fingerprint === false || path.dedupe === 'position') return undefined;
  if (fingerprint === true) return fingerprintOf(body);
  let part: unknown;
  try {
    part = fingerprint(message);
  } catch (cause) {
    throw unusable('the fingerprint function failed', cause, body);
  }
  return fingerprintOf(part);
}

/** What an identity sees of a delivery. A class: an object with a getter, made anew for each, costs a microsecond. */
class Raw extends LazyBody implements RawMessage {
  get headers() {
    return this.delivery.headers;
  }

  get position() {
    return this.delivery.position;
  }

  get topic() {
    return this.delivery.topic;
  }

  get partition() {
    return this.delivery.partition;
  }

  get offset() {
    return this.delivery.offset;
  }

  get key() {
    return this.delivery.keyBytes;
  }

  get value() {
    return this.delivery.value;
  }

  get brokerId() {
    return this.delivery.brokerId;
  }
}

function messageFrom(delivery: Delivery, id: string, body: unknown): Message {
  return {
    id,
    type: delivery.type,
    key: delivery.key,
    time: delivery.time,
    headers: delivery.headers,
    body,
    attempt: delivery.attempt,
    position: delivery.position,
  };
}

function entryFrom(
  delivery: Delivery,
  id: string | undefined,
  claim: EncodedKey | undefined,
  route: Route | undefined,
  refusal: Refusal | undefined,
  message: Message,
): Entry {
  return {
    delivery,
    id,
    claim,
    route,
    key: delivery.key,
    refusal,
    message,
    verdict: undefined,
    failures: 0,
    lostRaces: 0,
    unknownCommits: 0,
    unrecorded: undefined,
    busySince: undefined,
    heldSince: undefined,
    letter: undefined,
  };
}

/** With `onUnknownType: 'refuse'` a message that nobody handles stops the lane instead of being set aside. */
export function assertKnownTypes(path: Path, entries: readonly Entry[]): void {
  if (path.onUnknownType !== 'refuse') return;
  const unknown = entries.find(entry => entry.refusal?.kind === 'unknown-type');
  if (unknown !== undefined) {
    throw new NevertwiceError(
      'NT_CONFIG',
      `${unknown.refusal!.reason}; add one, or set onUnknownType to 'dead-letter' or 'ignore'`,
    );
  }
}
