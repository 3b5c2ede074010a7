import { expectTypeOf } from 'vitest';
import { z } from 'zod';
import { createConsumer, createInbox, type Message, type Outcome, trusted } from '../../src/index.ts';
import { memoryStore } from '../../src/memory.ts';
import type { PostgresStoreHandle } from '../../src/stores/postgres/index.ts';

declare const store: PostgresStoreHandle<'handle'>;
const Payment = z.object({ customer: z.string(), amount: z.coerce.number() });
interface Refund {
  readonly refund: bigint;
}

// Without a schema nothing is known of the body.
createConsumer({ name: 'a', store, handle: message => expectTypeOf(message).toEqualTypeOf<Message<unknown>>() });

// A schema says what the handler gets: its output, not its input.
createConsumer({
  name: 'a',
  store,
  body: Payment,
  handle: (message, { tx }) => {
    expectTypeOf(message.body).toEqualTypeOf<{ customer: string; amount: number }>();
    expectTypeOf(tx).toEqualTypeOf<'handle'>();
  },
});
createConsumer({
  name: 'a',
  store,
  body: Payment,
  handleBatch: (messages, context) => {
    expectTypeOf(messages).toEqualTypeOf<readonly Message<{ customer: string; amount: number }>[]>();
    expectTypeOf(context.tx).toEqualTypeOf<'handle'>();
    expectTypeOf(context.reject).toBeCallableWith(messages[0]!, 'no such account');
  },
});
createConsumer({
  name: 'a',
  store,
  body: trusted<Refund>(),
  handle: message => expectTypeOf(message.body).toEqualTypeOf<Refund>(),
});

// A map of types gives each handler its own body.
createConsumer({
  name: 'a',
  store,
  handlers: {
    PaymentReceived: {
      body: Payment,
      handle: message => expectTypeOf(message.body).toEqualTypeOf<{ customer: string; amount: number }>(),
    },
    Refunded: {
      body: trusted<Refund>(),
      handleBatch: messages => expectTypeOf(messages).toEqualTypeOf<readonly Message<Refund>[]>(),
    },
    Ping: { handle: message => expectTypeOf(message.body).toBeUnknown() },
  },
  onUnknownType: 'ignore',
});

// @ts-expect-error a handler for each message or one for the set, not both
createConsumer({ name: 'a', store, handle: () => undefined, handleBatch: () => undefined });
// @ts-expect-error one handler for all types, or handlers by type
createConsumer({ name: 'a', store, handle: () => undefined, handlers: { A: { handle: () => undefined } } });
// @ts-expect-error no handler at all
createConsumer({ name: 'a', store });

// The owner of a loop gets the handler's own result, or what it means that there is none.
const inbox = createInbox({ name: 'a', store });
const outcome = await inbox.process({ id: 'm1', body: { amount: 5 } }, async (message, { tx }) => {
  expectTypeOf(message.body).toEqualTypeOf<{ amount: number }>();
  expectTypeOf(tx).toEqualTypeOf<'handle'>();
  return 'done' as const;
});
expectTypeOf(outcome).toEqualTypeOf<Outcome<'done'>>();
if (outcome.status === 'processed') expectTypeOf(outcome.result).toEqualTypeOf<'done'>();
else if (outcome.status === 'dead-lettered') expectTypeOf(outcome.reason).toBeString();
else expectTypeOf(outcome.result).toEqualTypeOf<'done' | undefined>();

const leases = createInbox({ name: 'a', store: memoryStore() });
await leases.processBatch([{ id: 'm1', body: 1 }], (messages, context) => {
  for (const message of messages) expectTypeOf(context.for(message).token).toBeBigInt();
});
