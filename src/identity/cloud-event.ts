import { headerValues } from '../core/headers.ts';
import type { Headers } from '../ports/delivery.ts';
import { BadId } from './bad-id.ts';
import { bodyOf, type Identity, identityOf, type RawMessage, toId, toOneId } from './identity.ts';
import { joinParts } from './join.ts';
import { ownValue } from './own-value.ts';

// Kafka, HTTP, and the two spellings of the AMQP binding; in lower case, as header names match without regard to it.
const PREFIXES = ['ce_', 'ce-', 'cloudevents:', 'cloudevents_'];
const ID_HEADERS = PREFIXES.map(prefix => `${prefix}id`);
const SOURCE_HEADERS = PREFIXES.map(prefix => `${prefix}source`);

/**
 * The identity of a CloudEvent: `source` and `id` together, joined injectively. The specification makes `id` unique
 * only within its source, so the id alone merges event 1 of /orders with event 1 of /billing.
 *
 * Binary mode reads the headers `ce_id` and `ce_source`, also with the prefixes `ce-`, `cloudEvents:` and
 * `cloudEvents_`; structured mode reads a body with `specversion`, `id` and `source`. A missing source is refused. Where
 * both modes, or several prefixes, are present they must agree, or the message is `ambiguous`. Values are taken as they
 * came: the percent-encoding of the HTTP binding is not undone, so let one event keep to one binding.
 */
export function cloudEvent(): Identity {
  return identityOf('cloud-event', raw => {
    const inHeaders = binaryMode(raw.headers);
    const inBody = structuredMode(raw, inHeaders !== undefined);
    if (inHeaders !== undefined && inBody !== undefined && inHeaders !== inBody) {
      throw new BadId('ambiguous', 'CloudEvent', { detail: 'the headers name one event and the body another' });
    }
    const id = inHeaders ?? inBody;
    if (id !== undefined) return id;
    throw new BadId('missing', 'CloudEvent', { detail: 'neither a ce_id header nor a body with specversion' });
  });
}

function binaryMode(headers: Headers): string | undefined {
  const ids = valuesOf(headers, ID_HEADERS);
  const sources = valuesOf(headers, SOURCE_HEADERS);
  if (ids.length === 0 && sources.length === 0) return undefined;
  return joinParts([toOneId(sources, 'CloudEvent header source'), toOneId(ids, 'CloudEvent header id')]);
}

function valuesOf(headers: Headers, names: readonly string[]): readonly unknown[] {
  let found: readonly unknown[] = [];
  for (const name of names) {
    const values = headerValues(headers, name);
    if (values.length > 0) found = found.length === 0 ? values : [...found, ...values];
  }
  return found;
}

function structuredMode(raw: RawMessage, isBinary: boolean): string | undefined {
  let body: unknown;
  try {
    body = bodyOf(raw, 'CloudEvent');
  } catch (error) {
    // In binary mode the body is the event's data and may be anything; it carries no envelope if it cannot be decoded.
    if (isBinary) return undefined;
    throw error;
  }
  if (ownValue(body, 'specversion') === undefined) return undefined;
  const source = toId(ownValue(body, 'source'), 'CloudEvent source');
  return joinParts([source, toId(ownValue(body, 'id'), 'CloudEvent id')]);
}
