import type { Conviction, Report } from '../report.ts';
import type { TraceEvent } from '../trace.ts';
import { becauseOf } from './because.ts';
import { notCovered } from './coverage.ts';
import { replayOf } from './replay.ts';

/** What `--format json` writes. Fields are added without a new version; the version changes when one changes or goes. */
export interface ReportJson {
  readonly format: 'nevertwice-verify';
  readonly version: 1;
  readonly verdict: Report['verdict'];
  /** Why nothing can be said; null unless the verdict is `unknown`. */
  readonly why: string | null;
  readonly handler: string;
  readonly broker: string;
  readonly messages: readonly unknown[];
  readonly executions: number;
  /** Of these, those with trouble at moments that chance chose, when the time for the search was over. */
  readonly walks: number;
  readonly ms: number;
  /** Everything with at most so much trouble was tried; −1 when not even the plain delivery was. */
  readonly completeTo: number;
  readonly bounds: Report['bounds'];
  readonly convictions: readonly ConvictionJson[];
  /** Columns that differ from run to run. */
  readonly masked: readonly string[];
  readonly ignored: readonly string[];
  readonly accepted: readonly string[];
  /** In sentences. */
  readonly notCovered: readonly string[];
}

export interface ConvictionJson {
  readonly verdict: string;
  readonly cost: number;
  readonly executions: number;
  readonly ms: number;
  readonly differences: readonly { readonly table: string; readonly kind: string; readonly text: string }[];
  readonly because: string;
  readonly fix: string;
  /** A section of docs/verify.md. */
  readonly anchor: string;
  /** Index into `events` after which nothing could save it. */
  readonly sealedAt: number | null;
  readonly token: string;
  readonly replay: string;
  /** All of them, as they went; what does not apply is null. */
  readonly events: readonly Readonly<Record<string, unknown>>[];
}

export function json(report: Report): string {
  return JSON.stringify(reportJson(report), undefined, 2);
}

function reportJson(report: Report): ReportJson {
  const { plan, verdict, why, handler, executions, walks, ms, completeTo, bounds, masked } = report;
  return {
    format: 'nevertwice-verify',
    version: 1,
    verdict,
    why: why ?? null,
    handler,
    broker: plan.rules.name,
    messages: plan.messages,
    executions,
    walks,
    ms: Math.round(ms),
    completeTo,
    bounds,
    convictions: report.convictions.map(one => convictionJson(one, report)),
    masked,
    ignored: plan.ignore,
    accepted: plan.accept,
    notCovered: notCovered(report),
  };
}

function convictionJson(conviction: Conviction, report: Report): ConvictionJson {
  const { verdict, cost, executions, ms, deviation, token, sealedAt, trace } = conviction;
  const { because, fix, anchor } = becauseOf(conviction, report.plan);
  return {
    verdict,
    cost,
    executions,
    ms: Math.round(ms),
    differences: deviation.differences.map(({ table, kind, text }) => ({ table, kind, text })),
    because,
    fix,
    anchor,
    sealedAt: sealedAt ?? null,
    token,
    replay: replayOf(report, conviction),
    events: trace.events.map(eventJson),
  };
}

/** JSON has no undefined, and a field that is sometimes missing is a trap for whoever reads it. */
function eventJson(event: TraceEvent): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(event).map(([name, value]) => [name, value ?? null]));
}
