import { type HeadersInput, headersFrom } from '../../src/core/headers.ts';
import type { Delivery, Lane, Settlement, Source } from '../../src/index.ts';

/** What a test says of a delivery; the rest is filled in. `id` becomes the header `message-id`. */
export interface Given extends Partial<Omit<Delivery, 'headers' | 'body'>> {
  readonly id?: unknown;
  /** In whatever shape a client gives headers; instead of `id`. */
  readonly headers?: HeadersInput;
  /** The body as a value, `{}` unless told otherwise. Giving `value` instead, bytes or text, leaves it out. */
  readonly body?: unknown;
}

/** A source whose deliveries a test writes down one by one, in one lane, and that remembers how each was settled. */
export interface DeliverySource extends Source {
  /** By delivery: the verdict it was acked with, `retry-later`, or undefined when it was not settled. */
  readonly outcomes: readonly (string | undefined)[];
  /** How many deliveries each `receive` asked for. */
  readonly asked: readonly number[];
}

export function deliverySource(
  given: readonly Given[],
  options: { readonly retryLater?: boolean; readonly lane?: string } = {},
): DeliverySource {
  const { retryLater = false, lane = 'orders/0' } = options;
  const deliveries = given.map((one, i) => deliveryOf(one, lane, i));
  const outcomes: (string | undefined)[] = deliveries.map(() => undefined);
  const asked: number[] = [];
  const left = [...deliveries];
  const only: Lane = {
    id: lane,
    revoked: new AbortController().signal,
    async receive(max) {
      asked.push(max);
      return left.splice(0, max);
    },
    async settle(settlements: readonly Settlement[]) {
      for (const settlement of settlements) {
        outcomes[deliveries.indexOf(settlement.delivery)] =
          settlement.settle === 'ack' ? settlement.verdict : 'retry-later';
      }
    },
  };
  return {
    name: 'deliveries of a test',
    capabilities: { retryLater, finite: true },
    outcomes,
    asked,
    async *receive() {
      yield only;
    },
  };
}

function deliveryOf({ id, headers, body, ...rest }: Given, lane: string, i: number): Delivery {
  return {
    lane,
    position: `${lane}/${i}`,
    attempt: 1,
    headers: headersFrom(headers ?? (id === undefined ? {} : ({ 'message-id': id } as HeadersInput))),
    key: undefined,
    type: undefined,
    time: undefined,
    ...('value' in rest ? {} : { body: { value: body ?? {} } }),
    ...rest,
  };
}
