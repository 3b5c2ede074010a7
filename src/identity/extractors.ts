import { headerValues } from '../core/headers.ts';
import { NevertwiceError } from '../errors.ts';
import { BadId } from './bad-id.ts';
import { bodyOf, type Identity, identityOf, type RawMessage, toId, toOneId } from './identity.ts';
import { joinParts, looksJoined } from './join.ts';
import { ownValue } from './own-value.ts';

export { cloudEvent } from './cloud-event.ts';
export { contentHash, position, recordHash } from './weak-extractors.ts';

/**
 * The id that the producer put into a header; the best identity there is, since it travels with every copy. The name
 * matches without regard to case. Text and bytes of the same text are the same id. A repeated header must repeat the
 * same value; different values are refused as `ambiguous`, for every client, instead of joined or first-one-wins.
 *
 * @param name default `message-id`
 * @throws NevertwiceError NT_CONFIG for an empty name
 */
export function header(name = 'message-id'): Identity {
  requireName(name, 'header(name)');
  const what = `header ${JSON.stringify(name)}`;
  return identityOf(`header:${name.toLowerCase()}`, raw => {
    const values = headerValues(raw.headers, name);
    return values.length === 1 ? toId(values[0], what) : toOneId(values, what);
  });
}

/**
 * The value at a path of the decoded body: `bodyPath('order.id')`, `bodyPath('events.0.id')`. Steps are own properties
 * and array indexes; nothing inherited is ever read. A name that contains a dot needs the list form:
 * `bodyPath(['com.acme.id'])`. Numbers beyond 2^53 - 1 are refused, as JSON.parse may have rounded them.
 *
 * @throws NevertwiceError NT_CONFIG for an empty path or step
 */
export function bodyPath(path: string | readonly string[]): Identity {
  const steps = typeof path === 'string' ? path.split('.') : [...path];
  requireName(steps[0], 'bodyPath(path)');
  for (const step of steps) requireName(step, 'a step of bodyPath(path)');
  const name = steps.map(step => step.replaceAll('%', '%25').replaceAll('.', '%2E')).join('.');
  const what = `body path ${JSON.stringify(name)}`;
  return identityOf(`body:${name}`, raw => {
    let at = bodyOf(raw, what);
    for (const step of steps) {
      at = ownValue(at, step);
      if (at === undefined) throw new BadId('missing', what, { detail: `nothing at step ${JSON.stringify(step)}` });
    }
    return toId(at, what);
  });
}

/**
 * An id from business facts that together occur once: `naturalKey(raw => [order(raw).tenant, order(raw).number], { name: 'order' })`.
 *
 * `fn` returns one value or a list of parts; each is checked like an id (a missing or empty part is refused, never
 * skipped) and the list is joined injectively, so ("a", "b:c") is not ("a:b", "c"). One value and a list of that value
 * are the same id.
 *
 * @param options.name stands for `fn` in the identity signature: give it another name whenever `fn` changes its answers
 * @throws NevertwiceError NT_CONFIG for an empty name
 */
export function naturalKey(fn: (raw: RawMessage) => unknown, options: { readonly name: string }): Identity {
  const { name } = options;
  requireName(name, 'naturalKey(fn, { name })');
  const what = `natural key ${JSON.stringify(name)}`;
  return identityOf(`natural:${name}`, raw => {
    const answer = fn(raw);
    if (!Array.isArray(answer)) return joined([toId(answer, what)]);
    if (answer.length === 0) throw new BadId('missing', what, { detail: 'no parts' });
    const parts: string[] = [];
    // Not `map`, which would step over a hole and so over a missing part.
    for (const part of answer) parts.push(toId(part, `${what} part ${parts.length + 1}`));
    return joined(parts);
  });
}

// A lone part stays readable, and short as a key when it is a UUID; unless it could be mistaken for joined parts.
function joined(parts: readonly string[]): string {
  const [first] = parts;
  return parts.length === 1 && first !== undefined && !looksJoined(first) ? first : joinParts(parts);
}

/**
 * The id that the broker or its client gave the message: AMQP `message-id`, SQS `MessageId`. Right only where it
 * belongs to the message and not to the arrival. SQS gives a new one to every send, so a producer that sends the same
 * event twice is not caught; a redrive by hand or a shovel may also assign a new one.
 */
export function brokerId(): Identity {
  return identityOf('broker-id', raw => toId(raw.brokerId, 'broker id'));
}

function requireName(name: unknown, what: string): void {
  if (typeof name === 'string' && name.trim() !== '') return;
  throw new NevertwiceError('NT_CONFIG', `${what} needs a non-empty text, so no id could be found with it; give one`);
}
