import { type Case, type Deed, nameOf } from '../reading.ts';
import { counts, events, OWN_MARK, type Rule, recognised, whose } from './rule.ts';

/** The copy is refused, and refused for ever. */
const duplicateKey: Rule = {
  anchor: '#duplicate-key-error',
  explain(found) {
    if (found.conviction.verdict !== 'poisoned') return undefined;
    const refused = found.deeds.filter(deed => deed.result?.startsWith('23505'));
    const last = refused.at(-1);
    if (last === undefined) return undefined;
    return {
      because: `${whose(last.run, last)} failed with 23505 (duplicate key), as it must for a copy, and the handler passed the error to the broker, which delivers it again and again`,
      fix: 'treat a duplicate key as done: INSERT … ON CONFLICT DO NOTHING, and return when no row was inserted',
      evidence: events(refused[0]),
    };
  },
};

/** In a transaction that has failed the server refuses everything, for as long as nobody rolls back. */
const failedTransaction: Rule = {
  anchor: '#failed-transaction',
  explain(found) {
    const aborted = found.deeds.find(
      deed =>
        deed.result?.startsWith('25P02') ||
        (deed.statement.kind === 'nack' && /current transaction is aborted/.test(deed.step.text)),
    );
    if (aborted === undefined) return undefined;
    const failed = found.deeds.findLast(
      deed =>
        deed.failed && deed.at < aborted.at && deed.run.who === aborted.run.who && !deed.result!.startsWith('25P02'),
    );
    const which = failed === undefined ? 'a statement' : whose(failed.run, failed);
    if (failed !== undefined && failed.run !== aborted.run) {
      return {
        because: `${which} had failed, and its connection went back without a ROLLBACK: whoever gets it next is in a transaction in which PostgreSQL refuses everything (25P02)`,
        fix: 'roll back after an error, before the connection goes back to its pool',
        evidence: events(failed, aborted),
      };
    }
    return {
      because: `${which} had failed and the handler went on in the same transaction, in which PostgreSQL then refuses everything (25P02)`,
      fix: 'roll back after an error, or avoid it: ON CONFLICT DO NOTHING instead of a caught duplicate key, a savepoint around what may fail',
      evidence: events(failed, aborted),
    };
  },
};

/** It never got a new connection for the one that was cut. */
const deadConnection: Rule = {
  anchor: '#dead-connection',
  explain(found) {
    const cut = found.deeds.find(deed => deed.fault === 'reset' || deed.fault === 'reply-lost');
    if (found.conviction.verdict !== 'poisoned' || cut === undefined) return undefined;
    const after = found.runs.filter(run => run.at > cut.at && run.who === cut.run.who);
    if (after.length === 0 || after.some(run => run.deeds.some(deed => deed.step.place === cut.step.place)))
      return undefined;
    return {
      because: `after its connection had been cut, ${nameOf(cut.run)} asked the server for nothing more and failed at each delivery: it keeps using a client that is dead`,
      fix: 'take connections from a pool, or connect anew after an error; or end the process, so that it is started again',
      evidence: events(cut),
    };
  },
};

/** The mark that the last delivery found, and the earlier delivery that had written it. */
function refusal(found: Case): { claim: Deed; taken: Deed; isDone: boolean } | undefined {
  const last = found.runs.at(-1);
  const taken = last === undefined ? undefined : recognised(found, last);
  if (found.conviction.verdict !== 'poisoned' || taken === undefined || taken.failed) return undefined;
  const earlier = found.deeds.filter(deed => deed.run !== last);
  const claim = earlier.find(
    deed => found.isMark(deed) && deed.durableAt !== undefined && deed.statement.target === taken.statement.target,
  );
  // Nothing but the broker is unhappy: the work was done.
  const isDone = found.differing.size === 1 && earlier.some(deed => found.isEffect(deed) && counts(deed));
  return claim === undefined ? undefined : { claim, taken, isDone };
}

const duplicateRefused: Rule = {
  anchor: '#duplicate-refused',
  explain(found) {
    const refused = refusal(found);
    if (refused === undefined || !refused.isDone) return undefined;
    const { claim, taken } = refused;
    return {
      because: `the message had been done by ${whose(claim.run, claim)}, and each copy of it is refused instead of acked`,
      fix: 'a copy of what has been done is done: ack it',
      evidence: events(claim, taken),
    };
  },
};

/** Who claimed it is dead or has failed, and nobody else may. */
const staleClaim: Rule = {
  anchor: '#stale-claim',
  explain(found) {
    const refused = refusal(found);
    if (refused === undefined) return undefined;
    const { claim, taken } = refused;
    return {
      because: `what ${whose(claim.run, claim)} had claimed nobody gave back when it failed: every further delivery finds it taken, and fails`,
      fix: 'let a claim run out or go with its connection (a lease with a time limit, a lock of the transaction), and tell a message that is done from one that somebody else is at work on',
      evidence: events(claim, taken),
    };
  },
};

const poisoned: Rule = {
  anchor: '#poisoned',
  explain(found) {
    if (found.conviction.verdict !== 'poisoned') return undefined;
    const failed = found.deeds.findLast(deed => deed.failed);
    return {
      because: `after this trouble the handler fails at every further delivery${failed === undefined ? '' : `, at ${failed.statement.label}`}, so the message never ends`,
      fix: 'what an earlier delivery has left behind must not make the next one fail: recognise it, and finish or skip the work',
      evidence: events(failed),
    };
  },
};

const stuckLock: Rule = {
  anchor: '#stuck-lock',
  explain(found) {
    if (found.conviction.verdict !== 'stuck') return undefined;
    const waiting = found.deeds.find(deed => deed.step.waited && deed.doneAt === undefined);
    if (waiting === undefined) return undefined;
    return {
      because: `${whose(waiting.run, waiting)} waits for a lock that a transaction holds which nobody commits or rolls back`,
      fix: 'roll back and release the client in a finally; set lock_timeout and idle_in_transaction_session_timeout, so that what is left behind ends by itself',
      evidence: events(waiting),
    };
  },
};

const neverAcked: Rule = {
  anchor: '#never-acked',
  explain(found) {
    const last = found.runs.at(-1);
    const silent =
      found.plan.manualAck &&
      last?.deeds.every(deed => deed.statement.kind !== 'ack' && deed.statement.kind !== 'nack');
    if (found.conviction.verdict !== 'stuck' && !(found.conviction.verdict === 'poisoned' && silent === true))
      return undefined;
    return {
      because:
        'the handler came to its end and had neither acked nor refused the message, so the broker delivers it again and again',
      fix: 'ack on every path, also on the one of a message that has been seen before; throw where it has failed',
      evidence: [],
    };
  },
};

const order: Rule = {
  anchor: '#order',
  explain(found) {
    if (found.conviction.verdict !== 'reordered') return undefined;
    const effects = found.deeds
      .filter(deed => found.isEffect(deed) && deed.durableAt !== undefined)
      .sort((a, b) => a.durableAt! - b.durableAt!);
    return {
      because:
        'a later message took effect before an earlier one, and nothing in the statement asks which of them is newer',
      fix: 'compare a version or a position in the same statement (… WHERE version < $n), or handle messages of one key one after the other',
      evidence: events(...effects),
    };
  },
};

/** What the verdict alone tells nothing of: why the broker goes on, or in which order. */
export const BROKER_RULES: readonly Rule[] = [
  order,
  failedTransaction,
  duplicateKey,
  deadConnection,
  stuckLock,
  neverAcked,
  OWN_MARK,
  duplicateRefused,
  staleClaim,
  poisoned,
];
