export type { ConsumerOptions, Handlers, Shape } from './consumer-options.ts';
export type { BatchContext, ContextOf, LeaseContext, MessageContext, TransactionContext } from './context.ts';
export { type Consumer, createConsumer, type RunOptions } from './create-consumer.ts';
export { type Effect, type EffectCall, type EffectOptions, NotDone } from './effects/effect.ts';
export type { EffectsOption } from './effects/ledger.ts';
export { type ErrorCode, isNevertwiceError, NevertwiceError, Reject, Unavailable } from './errors.ts';
export { type Guard, lastEventGuard, versionGuard } from './guards/guards.ts';
export { type Decode, type Schema, trusted } from './handlers.ts';
export { BadId, type BadIdReason } from './identity/bad-id.ts';
export {
  bodyPath,
  brokerId,
  cloudEvent,
  contentHash,
  header,
  naturalKey,
  position,
  recordHash,
} from './identity/extractors.ts';
export { fingerprintOf } from './identity/fingerprint.ts';
export type { Identity, Normaliser, RawMessage } from './identity/identity.ts';
export { lowerCaseUuid, nfc } from './identity/normalisers.ts';
export {
  BatchError,
  createInbox,
  type Inbox,
  type InboxCalls,
  type InboxOptions,
  type Incoming,
  type Outcome,
} from './inbox.ts';
export type { LetterContent, LetterSeal } from './letter-seal.ts';
export type { CircuitPolicy, Policy } from './options.ts';
export { createOutbox, type Outbox } from './outbox/create-outbox.ts';
export {
  createRelay,
  type Relay,
  type RelayPoint,
  type RelayRunOptions,
  type RelaySummary,
} from './outbox/create-relay.ts';
export type { Destination, PublishContext, PublishedMessage } from './outbox/destination.ts';
export { type HttpDestinationOptions, httpDestination } from './outbox/http-destination.ts';
export { type InboxDestinationOptions, inboxDestination } from './outbox/inbox-destination.ts';
export type { RelayOptions } from './outbox/relay-options.ts';
export type { OutboxAdd, OutboxMessage } from './outbox/row.ts';
export type { Summary } from './path.ts';
export type { Attempts } from './ports/attempts.ts';
export type { Clock } from './ports/clock.ts';
export type { Delivery, Headers, Message } from './ports/delivery.ts';
export type { EffectAnswer, EffectIntent, EffectRecord, EffectRows } from './ports/effects.ts';
export type {
  LetterEdit,
  LetterEvent,
  LetterFilter,
  LetterNote,
  LetterOutcome,
  LetterPage,
  Letters,
  StoredLetter,
} from './ports/letters.ts';
export type { Backlog, OutboxRow, OutboxStore, ParkedRow, WaitingRow, WakeListener } from './ports/outbox.ts';
export type { PointAt, Points, Step } from './ports/points.ts';
export type { Lag, Lane, ReceiveOptions, Settlement, Source, SourceCapabilities } from './ports/source.ts';
export type { Sql } from './ports/sql.ts';
export type {
  Answer,
  Claim,
  ConsumerRegistration,
  Counts,
  DeadLetter,
  LeaseGrant,
  LeaseInbox,
  LeaseProof,
  LeaseState,
  LeaseStore,
  LetterError,
  Positions,
  Store,
  StoreCapabilities,
  TransactionalInbox,
  TransactionalStore,
  TransactionOptions,
  Unit,
} from './ports/store.ts';
export { Contended } from './ports/store.ts';
export type { RedrivenLetter, RedriveOptions, RedriveOutcome, RedriveSummary } from './redrive.ts';
export type { MessageEdit } from './redriven.ts';
export {
  type CacheCounts,
  type CachedStore,
  type CompletedCacheOptions,
  completedCache,
} from './stores/completed-cache.ts';
