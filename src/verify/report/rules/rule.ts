import { type Case, type Deed, foundMark, nameOf, type Run, took } from '../reading.ts';

/** Why it could happen, and what to do about it. */
export interface Explanation {
  readonly because: string;
  readonly fix: string;
  /** The events that it rests on: a story that is too long leaves others out first. */
  readonly evidence: readonly number[];
}

/** One pattern. The first that knows its own in a case explains it. */
export interface Rule {
  /** The section of docs/verify.md that says more. */
  readonly anchor: string;
  explain(found: Case): Explanation | undefined;
}

/** Two deliveries of one message, in the order of their starts. */
export interface Pair {
  readonly first: Run;
  readonly second: Run;
}

export function pairsOf({ runs }: Case): readonly Pair[] {
  return runs.flatMap((second, i) =>
    runs
      .slice(0, i)
      .filter(first => first.messages.some(message => second.messages.includes(message)))
      .map(first => ({ first, second })),
  );
}

/** Deliveries that both had their effect, with the statements that had it. */
export function doubled(found: Case): { pair: Pair; once: Deed; again: Deed } | undefined {
  for (const pair of pairsOf(found)) {
    const [once, again] = [pair.first, pair.second].map(run =>
      run.deeds.find(deed => found.isEffect(deed) && took(deed) && counts(deed)),
    );
    if (once !== undefined && again !== undefined) return { pair, once, again };
  }
  return undefined;
}

/** Outside of a database nothing is ever taken back. */
export function counts(deed: Deed): boolean {
  return (
    deed.durableAt !== undefined ||
    (deed.doneAt !== undefined && (deed.step.place === 'http' || deed.statement.kind === 'publish'))
  );
}

/** `consumer 2's INSERT INTO processed` */
export function whose(run: Run, deed: Deed, beside?: Run): string {
  return `${nameOf(run, beside)}'s ${deed.statement.label}`;
}

export function events(...deeds: readonly (Deed | undefined)[]): readonly number[] {
  return deeds.flatMap(deed =>
    deed === undefined
      ? []
      : [
          deed.at,
          ...(deed.doneAt === undefined ? [] : [deed.doneAt]),
          ...(deed.durableAt === undefined ? [] : [deed.durableAt]),
        ],
  );
}

/** By which a delivery is taken for a copy, or would have been. */
export function looksOf(found: Case, run: Run): readonly Deed[] {
  const targets = new Set(found.deeds.filter(found.isMark).flatMap(deed => deed.statement.targets));
  return run.deeds.filter(
    deed => found.isMark(deed) || (deed.statement.kind === 'read' && targets.has(deed.statement.target)),
  );
}

/** The look with which a delivery found that it is a copy. */
export function recognised(found: Case, run: Run): Deed | undefined {
  return looksOf(found, run).find(foundMark);
}

/** A client that sends a request again by itself, or a handler that does, meets what the first one did. */
export const OWN_MARK: Rule = {
  anchor: '#own-mark',
  explain(found) {
    for (const run of found.runs) {
      const lost = run.deeds.find(deed => deed.fault === 'reply-lost' && found.isMark(deed) && took(deed));
      const again = run.deeds.find(
        deed =>
          deed.at > (lost?.at ?? Number.POSITIVE_INFINITY) && deed.step.text === lost?.step.text && foundMark(deed),
      );
      if (lost === undefined || again === undefined) continue;
      return {
        because: `the server had executed ${lost.statement.label} although no answer came, the client sent it again, and the handler took its own mark for that of another`,
        fix: 'keep the mark in the transaction of the effect, where it goes when its answer is lost; otherwise write a value of your own into it and compare that before giving up',
        evidence: events(lost, again),
      };
    }
    return undefined;
  },
};

export const ONE_TRANSACTION =
  'put both into one transaction, the mark first: INSERT the id under a unique key with ON CONFLICT DO NOTHING, and stop when no row was inserted';
