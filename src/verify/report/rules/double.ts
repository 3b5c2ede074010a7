import { type Case, type Deed, foundMark, nameOf, placeName, type Run, took } from '../reading.ts';
import { shapeOf } from '../statement.ts';
import { doubled, events, looksOf, ONE_TRANSACTION, pairsOf, type Rule, whose } from './rule.ts';

/** A request of a dead process came after its successor had done the work. */
const lateRequest: Rule = {
  anchor: '#late-request',
  explain(found) {
    const late = found.deeds.find(deed => deed.landed && (found.isEffect(deed) || deed.statement.kind === 'commit'));
    // Without any mark, a copy that is not late does the same harm.
    const looks = found.runs.some(run => looksOf(found, run).length > 0);
    if (late === undefined || !looks) return undefined;
    return {
      because: `${whose(late.run, late)} was still on its way when its process had died, and landed after the next delivery had begun; nothing rejected it`,
      fix: 'let the same statement or transaction reject what comes late: a unique key on the message id, or a fencing token that it compares',
      evidence: [late.at, late.doneAt!],
    };
  },
};

const KEY = /\(key (.*)\)$/;

/** The copies carry keys, but not the same one. */
const httpKey: Rule = {
  anchor: '#http-key',
  explain(found) {
    if (!found.differing.has('http')) return undefined;
    const keyed = found.deeds.filter(deed => deed.step.place === 'http' && KEY.test(deed.step.text));
    const [one] = keyed;
    const other = keyed.find(
      deed => deed.run !== one!.run && KEY.exec(deed.step.text)![1] !== KEY.exec(one!.step.text)![1],
    );
    if (one === undefined || other === undefined) return undefined;
    return {
      because: `the two deliveries sent ${one.statement.label} with different Idempotency-Keys, so the server took them for two requests`,
      fix: 'derive the Idempotency-Key from the message id, so that every copy sends the same one',
      evidence: events(one, other),
    };
  },
};

/** What leaves the database is not rolled back with it. */
const http: Rule = {
  anchor: '#http',
  explain(found) {
    const sent = found.deeds.filter(
      deed => deed.step.place === 'http' && deed.statement.kind === 'write' && deed.doneAt !== undefined,
    );
    const [one, other] = sent;
    if (!found.differing.has('http') || one === undefined || other === undefined) return undefined;
    const wrapped = found.deeds.some(deed => deed.inTransaction);
    return {
      because: `${wrapped ? `the HTTP request is not rolled back with the transaction: ${one.statement.label}` : `an HTTP request cannot be taken back: ${one.statement.label}`} had been carried out, what would have recorded that was not committed, and the next delivery sent it again`,
      fix: 'send an Idempotency-Key derived from the message id, or write the request into an outbox in the transaction and send it afterwards',
      evidence: events(one, other),
    };
  },
};

const publish: Rule = {
  anchor: '#publish',
  explain(found) {
    const sent = found.deeds.filter(deed => deed.statement.kind === 'publish' && deed.doneAt !== undefined);
    const [one, other] = sent;
    if (!found.differing.has('published') || one === undefined || other === undefined) return undefined;
    return {
      because:
        'a published message cannot be taken back: the first delivery had published it when it failed, and the next one published it again',
      fix: 'write it into an outbox in the transaction of the effect, under an id derived from the message id, and let its consumers drop copies',
      evidence: events(one, other),
    };
  },
};

/** The fix that people reach for first: a catch that takes the mark back. */
const markTakenBack: Rule = {
  anchor: '#mark-taken-back',
  explain(found) {
    const lost = found.deeds.find(deed => deed.fault === 'reply-lost');
    if (lost === undefined) return undefined;
    const marks = new Set(found.deeds.filter(found.isMark).map(deed => deed.statement.target));
    const back = lost.run.deeds.find(
      deed =>
        deed.at > lost.at && /^(?:DELETE|DEL|UNLINK)$/.test(deed.statement.verb) && marks.has(deed.statement.target),
    );
    if (back === undefined) return undefined;
    return {
      because: `the server had executed ${lost.statement.label} although the client saw an error, and the handler's catch took the mark back (${back.statement.label})`,
      fix: 'an error does not say that nothing happened: never take a mark back by hand, but write it in the transaction of the effect, where both are kept or neither',
      evidence: events(lost, back),
    };
  },
};

/** Mark and effect went through different connections, so the transaction holds only one of them. */
const outerClient: Rule = {
  anchor: '#outer-client',
  explain(found) {
    for (const run of found.runs) {
      const inside = run.deeds.find(deed => found.isMark(deed) && deed.inTransaction);
      const outside = run.deeds.find(
        deed =>
          found.isEffect(deed) &&
          !deed.inTransaction &&
          deed.step.place === inside?.step.place &&
          deed.step.connection !== inside.step.connection,
      );
      if (inside === undefined || outside === undefined) continue;
      return {
        because: `${whose(run, outside)} went through another connection than the transaction of ${inside.statement.label}, and is neither committed nor rolled back with it`,
        fix: 'use the client of the transaction for every statement of it, not the pool or a global client',
        evidence: events(inside, outside),
      };
    }
    return undefined;
  },
};

const LEASE = /\b\w*(?:lease|lock(?:ed)?_|claim|expire|owner|until|status)\w*\b|\bDO\s+UPDATE\b|\b(?:PX|EX)\s+\d/i;

/** Both held the claim, one after the other, and the first one did not notice that it had lost it. */
const lease: Rule = {
  anchor: '#lease-without-fence',
  explain(found) {
    const both = doubled(found);
    if (both === undefined) return undefined;
    const { first, second } = both.pair;
    const claims = [first, second].map(run =>
      run.deeds.find(deed => found.isMark(deed) && took(deed) && LEASE.test(deed.step.text)),
    );
    const [one, other] = claims;
    if (one === undefined || other === undefined || first.endsAt < other.at) return undefined;
    // A mark that follows the work claims nothing.
    if (one.at > both.once.at || other.at > both.again.at || other.at > both.once.at) return undefined;
    return {
      because: `${nameOf(first)} was still at work when its claim had gone to ${nameOf(second)}, and nothing in its ${both.once.statement.label} asks whether it holds the claim`,
      fix: 'count the claims up (a fencing token), and let the statement or transaction of the effect fail when the number is no longer its own',
      evidence: events(one, other, both.once, both.again),
    };
  },
};

/** Both looked before either had written. */
const checkThenAct: Rule = {
  anchor: '#check-then-act',
  explain(found) {
    const both = doubled(found);
    if (both === undefined) return undefined;
    const { first, second } = both.pair;
    const race = raceOf(found, first, second) ?? raceOf(found, second, first);
    if (race === undefined) return undefined;
    const { winner, loser, look, mark } = race;
    const effect = loser === second ? both.again : both.once;
    const { target } = mark.statement;
    const marks = loser.deeds.filter(deed => found.isMark(deed) && deed.statement.target === target);
    const evidence = events(look, mark, both.once, both.again, ...marks);
    const raced = `${whose(loser, look, winner)} ran before ${whose(winner, mark, loser)} was committed`;
    if (look.step.place === 'redis') {
      return {
        because: `${raced}: between a look and the write after it there is room for another delivery`,
        fix: 'claim with one statement that tells the winner, under a unique key in the database of the effect and in its transaction',
        evidence,
      };
    }
    if (marks.some(foundMark)) {
      return {
        because: `${raced}, and the unique key on ${target} came too late: ${whose(loser, effect, winner)} had already been committed by itself`,
        fix: `insert first: INSERT INTO ${target} … ON CONFLICT DO NOTHING in the transaction of the effect, and stop when no row was inserted`,
        evidence,
      };
    }
    return {
      because: `${raced}, and nothing makes the second ${mark.statement.verb} fail`,
      fix: `put a unique key on ${target}(${columnOf(mark) ?? 'id'}) and insert first, in the transaction of the effect`,
      evidence,
    };
  },
};

/** The one looked, found nothing, and wrote its mark after the other's. */
function raceOf(found: Case, winner: Run, loser: Run): { winner: Run; loser: Run; look: Deed; mark: Deed } | undefined {
  const look = looksOf(found, loser).find(
    deed => deed.statement.kind === 'read' && deed.doneAt !== undefined && !foundMark(deed),
  );
  const mark = winner.deeds.find(deed => found.isMark(deed) && deed.statement.target === look?.statement.target);
  if (look === undefined || mark?.durableAt === undefined || mark.durableAt < look.doneAt!) return undefined;
  // One that had come to its end before the other began did not race it.
  if (loser.deeds.at(-1)!.at < winner.at) return undefined;
  const own = loser.deeds.find(deed => found.isMark(deed) && deed.statement.target === mark.statement.target);
  return (own?.durableAt ?? Number.POSITIVE_INFINITY) < mark.durableAt ? undefined : { winner, loser, look, mark };
}

/** The first column that an INSERT names. */
function columnOf({ step }: Deed): string | undefined {
  return /\bINTO\s+\S+?\s*\(\s*"?(\w+)/i.exec(step.text)?.[1];
}

/** The effect stands, what would have told the copy does not. */
const markAfter: Rule = {
  anchor: '#mark-after',
  explain(found) {
    const both = doubled(found);
    if (both === undefined) return undefined;
    const { first, second } = both.pair;
    const looks = looksOf(found, second);
    if (looks[0]?.doneAt === undefined || looks.some(foundMark)) return undefined;
    const [look] = looks as [Deed];
    const marks = first.deeds.filter(found.isMark);
    if (marks.some(deed => deed.durableAt !== undefined && (!deed.landed || deed.durableAt < look.doneAt!)))
      return undefined;
    const isElsewhere = look.step.place !== both.once.step.place;
    const apart = both.once.inTransaction || isElsewhere ? '' : '; each statement committed by itself';
    const where = isElsewhere ? placeName(look) : look.statement.target;
    return {
      because: `${whose(first, both.once, second)} was committed and its mark in ${where} was not${apart}, so the next delivery found no mark`,
      fix: isElsewhere
        ? `keep the mark where the effect is: no transaction covers both ${placeName(look)} and ${placeName(both.once)}`
        : ONE_TRANSACTION,
      evidence: events(both.once, both.again, look, ...marks),
    };
  },
};

/** Two marks of one message, and nobody minds. */
const noUniqueKey: Rule = {
  anchor: '#no-unique-key',
  explain(found) {
    const both = doubled(found);
    if (both === undefined) return undefined;
    const { first, second } = both.pair;
    const mark = first.deeds.find(deed => found.isMark(deed) && took(deed) && deed.statement.verb === 'INSERT');
    const again = second.deeds.find(
      deed => found.isMark(deed) && took(deed) && deed.statement.target === mark?.statement.target,
    );
    if (mark === undefined || again === undefined) return undefined;
    const { target } = mark.statement;
    return {
      because: `${target} took the same message twice: ${whose(second, again, first)} did not fail, so ${both.again.statement.label} ran again`,
      fix: `put a unique key on ${target}(${columnOf(mark) ?? 'id'}); a WHERE NOT EXISTS is no substitute, since it does not see what others have not committed`,
      evidence: events(mark, again, both.once, both.again),
    };
  },
};

/** One INSERT that looks for itself: two of them at once both find nothing. */
const insertIfAbsent: Rule = {
  anchor: '#no-unique-key',
  explain(found) {
    const both = doubled(found);
    if (both === undefined || !/\bNOT\s+EXISTS\b/i.test(both.again.step.text)) return undefined;
    const { target } = both.once.statement;
    return {
      because: `${whose(both.pair.second, both.again, both.pair.first)} did not see ${whose(both.pair.first, both.once, both.pair.second)}: WHERE NOT EXISTS does not see what others have not committed`,
      fix: `put a unique key on ${target}, and use ON CONFLICT DO NOTHING in place of WHERE NOT EXISTS`,
      evidence: events(both.once, both.again),
    };
  },
};

/** Done again within one delivery, after an answer that had only been lost. */
const retriedInside: Rule = {
  anchor: '#retried-transaction',
  explain(found) {
    for (const run of found.runs) {
      const done = run.deeds.filter(deed => found.isEffect(deed) && took(deed) && deed.durableAt !== undefined);
      const again = done.find((deed, i) => done.slice(0, i).some(other => other.step.text === deed.step.text));
      const lost = run.deeds.find(deed => deed.fault === 'reply-lost' && deed.at < (again?.at ?? -1));
      if (again === undefined || lost === undefined) continue;
      return {
        because: `the server had executed ${lost.statement.label} although the client saw an error, and the handler did ${again.statement.label} again in the same delivery`,
        fix: 'let the mark decide in every try: INSERT it first, in the same transaction, and stop when no row was inserted',
        evidence: events(...done.filter(deed => deed.step.text === again.step.text), lost),
      };
    }
    return undefined;
  },
};

/** What tells the copies apart is not the message. */
const unstableKey: Rule = {
  anchor: '#unstable-key',
  explain(found) {
    for (const { first, second } of pairsOf(found)) {
      const marks = (run: Run) => run.deeds.filter(deed => deed.statement.verb === 'INSERT' && deed.statement.tolerant);
      for (const one of marks(first)) {
        const other = marks(second).find(deed => shapeOf(deed.step.text) === shapeOf(one.step.text) && took(deed));
        if (other === undefined || other.step.text === one.step.text) continue;
        return {
          because: `${whose(second, other, first)} holds other values than ${whose(first, one, second)}, for the same message: its key changes from delivery to delivery, so no copy is ever recognised`,
          fix: 'take the key from the message alone: no attempt, no time, nothing random, no position that a resend changes',
          evidence: events(one, other),
        };
      }
    }
    return undefined;
  },
};

/** A guard that knows one message: any other in between makes it forget. */
const onlyTheLast: Rule = {
  anchor: '#only-the-last',
  explain(found) {
    const both = doubled(found);
    if (both === undefined) return undefined;
    const { once, again } = both;
    const guarded = /(?:<>|!=|\bIS\s+DISTINCT\s+FROM)\s*('(?:[^']|'')*'|\d+)/i
      .exec(again.step.text)?.[1]
      ?.replace(/^'|'$/g, '');
    const ids = again.run.messages.map(n => String(found.plan.messages[n]?.id));
    const between = found.deeds.find(
      deed => deed.at > once.at && deed.at < again.at && found.isEffect(deed) && took(deed),
    );
    if (guarded === undefined || !ids.includes(guarded) || between === undefined) return undefined;
    return {
      because: `${again.statement.label} compares with the last message only, and another one had come in between`,
      fix: 'keep every id (a table with a unique key), or compare positions where they only grow: … WHERE position < $n',
      evidence: events(once, between, again),
    };
  },
};

/** Nothing tells a copy from a new message. */
const noDeduplication: Rule = {
  anchor: '#no-deduplication',
  explain(found) {
    const both = doubled(found);
    if (both === undefined || looksOf(found, both.pair.second).length > 0) return undefined;
    const { once, again } = both;
    const heard =
      once.fault === 'reply-lost' ? `; the server had executed the first although the client saw an error` : '';
    return {
      because: `nothing on a server tells a copy from a new message: ${again.statement.label} ran once for each delivery${heard}`,
      fix:
        again.step.place === 'redis'
          ? 'look for the message id and do the work in one script (EVAL), which Redis runs as a whole: SET id NX first, and stop when it was there'
          : 'record the message id in a table with a unique key, in the transaction of the effect: INSERT … ON CONFLICT DO NOTHING, and stop when no row was inserted',
      evidence: events(once, again),
    };
  },
};

export const DOUBLE_RULES: readonly Rule[] = [
  lateRequest,
  httpKey,
  http,
  publish,
  markTakenBack,
  retriedInside,
  outerClient,
  lease,
  insertIfAbsent,
  checkThenAct,
  markAfter,
  unstableKey,
  noUniqueKey,
  onlyTheLast,
  noDeduplication,
];
