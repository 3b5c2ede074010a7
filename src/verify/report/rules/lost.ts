import { type Case, type Deed, isWrite, nameOf, type Run, took } from '../reading.ts';
import { counts, events, ONE_TRANSACTION, OWN_MARK, pairsOf, type Rule, recognised, whose } from './rule.ts';

function ackOf(run: Run): Deed | undefined {
  return run.deeds.find(deed => deed.statement.kind === 'ack' && deed.doneAt !== undefined);
}

/** PostgreSQL answers COMMIT with ROLLBACK when a statement before it had failed. */
const failedTransaction: Rule = {
  anchor: '#failed-transaction',
  explain(found) {
    for (const run of found.runs) {
      const commit = run.deeds.find(deed => deed.statement.kind === 'commit' && /\bROLLBACK\b/.test(deed.result ?? ''));
      const failed = run.deeds.find(deed => deed.failed && deed.at < (commit?.at ?? -1));
      if (commit === undefined || ackOf(run) === undefined) continue;
      return {
        because: `${failed === undefined ? 'a statement' : whose(run, failed)} had failed and the handler went on: the server answered its COMMIT with ROLLBACK, nothing was kept, and the message was acked`,
        fix: 'do not catch errors of single statements in a transaction: roll back and let the error reach the broker, or wrap the statement into a savepoint',
        evidence: events(failed, commit, ackOf(run)),
      };
    }
    return undefined;
  },
};

/** The delivery that failed is the one that acked. */
const swallowed: Rule = {
  anchor: '#swallowed-error',
  explain(found) {
    for (const run of found.runs) {
      const ack = ackOf(run);
      const failed = run.deeds.find(
        deed =>
          deed.at < (ack?.at ?? -1) &&
          (deed.fault === 'reset' || (deed.failed && !(deed.result!.startsWith('23505') && found.isMark(deed)))) &&
          deed.statement.kind !== 'ack' &&
          !run.deeds.some(other => other.at > deed.at && other.step.text === deed.step.text && took(other)),
      );
      if (ack === undefined || failed === undefined) continue;
      return {
        because: `${whose(run, failed)} failed, the handler went on as if it had not, and the broker got an ack`,
        fix: 'let the error reach the broker: a handler that catches it must throw it again',
        evidence: events(failed, ack),
      };
    }
    return undefined;
  },
};

/** The message was given up before its effect was safe. */
const ackFirst: Rule = {
  anchor: '#ack-first',
  explain(found) {
    if (!found.plan.manualAck) return undefined;
    for (const run of found.runs) {
      const ack = ackOf(run);
      const late = run.deeds.find(
        deed =>
          found.isEffect(deed) && (deed.durableAt ?? Number.POSITIVE_INFINITY) > (ack?.at ?? Number.POSITIVE_INFINITY),
      );
      if (ack === undefined) continue;
      if (late === undefined && run.deeds.some(deed => deed.at > ack.at && counts(deed))) continue;
      if (late === undefined && !run.died) continue;
      return {
        because: `the message was acked before its effect was durable: when ${nameOf(run)} ${run.died ? 'died' : 'failed'}, the broker had forgotten the message`,
        fix: 'ack last, after the commit; a copy that comes for that reason must be recognised by its id',
        evidence: events(ack, late),
      };
    }
    return undefined;
  },
};

/** What ran after the handler had returned, or after the commit, nobody had waited for. */
const forgottenAwait: Rule = {
  anchor: '#forgotten-await',
  explain(found) {
    for (const run of found.runs) {
      const over = run.deeds.find(deed => deed.statement.kind === 'ack' && !found.plan.manualAck);
      const late = run.deeds.find(deed => found.isEffect(deed) && deed.at > (over?.at ?? Number.POSITIVE_INFINITY));
      if (over === undefined || late === undefined) continue;
      return {
        because: `${whose(run, late)} came after the handler had returned and the message was acked: nobody had waited for it`,
        fix: 'await it, so that the handler ends after its effect and fails with it',
        evidence: events(over, late),
      };
    }
    return undefined;
  },
};

/** The copy found the mark of work that had never been done. */
function markedFirst(
  found: Case,
): { first: Run; second: Run; mark: Deed; look: Deed; missing: Deed | undefined } | undefined {
  for (const { first, second } of pairsOf(found)) {
    const mark = first.deeds.find(deed => found.isMark(deed) && deed.durableAt !== undefined);
    const look = recognised(found, second);
    if (mark === undefined || look === undefined || first.deeds.some(deed => found.touches(deed) && counts(deed)))
      continue;
    return { first, second, mark, look, missing: found.deeds.find(found.touches) };
  }
  return undefined;
}

const markElsewhere: Rule = {
  anchor: '#mark-elsewhere',
  explain(found) {
    const marked = markedFirst(found);
    if (marked === undefined || marked.mark.step.place !== 'redis') return undefined;
    const { first, second, mark, look, missing } = marked;
    return {
      because: `the mark was in Redis before the effect was in the database, and no transaction covers both: ${nameOf(first, second)} failed in between, and ${nameOf(second, first)} took the message for done`,
      fix: 'keep the mark where the effect is: a row under a unique key, inserted in the same transaction',
      evidence: events(mark, look, missing),
    };
  },
};

const markFirst: Rule = {
  anchor: '#mark-first',
  explain(found) {
    const marked = markedFirst(found);
    if (marked === undefined) return undefined;
    const { first, second, mark, look, missing } = marked;
    const late = mark.landed ? ' (it landed when its process had died)' : '';
    return {
      because: `the mark was committed before the effect: ${whose(first, mark, second)} was there to stay${late} when ${nameOf(first, second)} had failed, and ${nameOf(second, first)} took the message for done although its effect was missing`,
      fix: ONE_TRANSACTION,
      evidence: events(mark, look, missing),
    };
  },
};

/** Who cannot have the lock goes on without it. */
const skippedLock: Rule = {
  anchor: '#skipped-lock',
  explain(found) {
    for (const run of found.runs) {
      const skipped = run.deeds.find(
        deed => /\bSKIP\s+LOCKED\b|\bpg_try_advisory/i.test(deed.step.text) && deed.doneAt !== undefined,
      );
      const ack = ackOf(run);
      if (skipped === undefined || ack === undefined || run.deeds.some(deed => found.touches(deed) && counts(deed)))
        continue;
      const what = /\bSKIP\s+LOCKED\b/i.test(skipped.step.text)
        ? 'SKIP LOCKED left out what another transaction held'
        : 'the lock was held by another transaction';
      return {
        because: `${what}, and ${nameOf(run)} acked its message without having done its work`,
        fix: 'wait for the lock (FOR UPDATE), or fail, so that the broker delivers the message again',
        evidence: events(skipped, ack),
      };
    }
    return undefined;
  },
};

const outside = (found: Case): { run: Run; effect: Deed } | undefined => {
  for (const run of found.runs) {
    const effect = run.deeds.find(
      deed => isWrite(deed) && !found.isMark(deed) && deed.durableAt !== undefined && !deed.inTransaction,
    );
    if (effect !== undefined) return { run, effect };
  }
  return undefined;
};

/** Half of it stayed. */
const noTransaction: Rule = {
  anchor: '#no-transaction',
  explain(found) {
    const half = outside(found);
    if (half === undefined || found.conviction.verdict === 'lost') return undefined;
    return {
      because: `no transaction: each statement committed by itself, so ${whose(half.run, half.effect)} stayed although what belongs to it never came`,
      fix: 'put all statements of one message into one transaction, together with the mark',
      evidence: events(half.effect),
    };
  },
};

/** What was computed from a value that had changed in the meantime. */
const lostUpdate: Rule = {
  anchor: '#lost-update',
  explain(found) {
    for (const write of found.deeds.filter(deed => deed.statement.verb === 'UPDATE' && deed.durableAt !== undefined)) {
      const { target } = write.statement;
      const read = write.run.deeds.find(
        deed => deed.statement.kind === 'read' && deed.statement.target === target && deed.at < write.at,
      );
      const between = found.deeds.find(
        other =>
          other.run !== write.run &&
          isWrite(other) &&
          other.statement.target === target &&
          (other.durableAt ?? -1) > (read?.at ?? Number.POSITIVE_INFINITY) &&
          other.durableAt! < write.durableAt!,
      );
      if (read === undefined || between === undefined) continue;
      return {
        because: `${whose(write.run, write)} wrote a value that it had computed from what ${read.statement.label} had read, and ${whose(between.run, between)} had changed it in between`,
        fix: `let the database compute (UPDATE ${target} SET n = n + …), or lock what is read with SELECT … FOR UPDATE in the same transaction`,
        evidence: events(read, between, write),
      };
    }
    return undefined;
  },
};

export const LOST_RULES: readonly Rule[] = [
  failedTransaction,
  OWN_MARK,
  swallowed,
  skippedLock,
  ackFirst,
  forgottenAwait,
  markElsewhere,
  markFirst,
  lostUpdate,
  noTransaction,
];
