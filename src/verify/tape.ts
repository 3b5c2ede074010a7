/** What a choice spends, by kind. Kinds without a number spend nothing. */
export interface Cost {
  /** A further copy of a message, without a fault that explains it. */
  readonly duplicates?: number;
  /** A process killed. */
  readonly crashes?: number;
  /** A connection cut while the process lives. */
  readonly faults?: number;
  /** A request that lands after its sender has died. */
  readonly inFlight?: number;
  /** A switch away from a consumer that could go on. */
  readonly preemptions?: number;
  /** A consumer whose clock is ahead of the others'. */
  readonly clocks?: number;
  /** Records that are gone before a late copy comes. */
  readonly evictions?: number;
}

export type Spending = keyof Cost;
export const SPENDINGS = [
  'duplicates',
  'crashes',
  'faults',
  'inFlight',
  'preemptions',
  'clocks',
  'evictions',
] as const satisfies readonly Spending[];

/** The same number of each kind. */
export function ofEach(most: number): Required<Cost> {
  return Object.fromEntries(SPENDINGS.map(kind => [kind, most])) as unknown as Required<Cost>;
}

/** Most that one execution may spend, in all and of each kind. */
export interface Bounds extends Required<Cost> {
  readonly total: number;
}

/** One way to go on. */
export interface Option {
  /** Says what it is, the same in every execution that comes here: what replays are compared by. */
  readonly label: string;
  readonly cost: Cost;
}

export function costOf(cost: Cost): number {
  return SPENDINGS.reduce((sum, kind) => sum + (cost[kind] ?? 0), 0);
}

/** The decisions of one execution: at each, which option was taken. After the last, always the first. */
export type Tape = readonly number[];

/** The execution did not come to where the tape says that it would: something besides the choices decides what happens. */
export class Diverged extends Error {
  readonly at: number;
  readonly expected: string;
  readonly found: string;

  constructor(at: number, expected: string, found: string) {
    super(`decision ${at + 1} had been ${differing(expected, found)} and was ${differing(found, expected)}`);
    this.at = at;
    this.expected = expected;
    this.found = found;
  }
}

/** The first option that the other has not, cut short. */
function differing(options: string, others: string): string {
  const known = new Set(others.split(' | '));
  const one = options.split(' | ').find(option => !known.has(option)) ?? 'another number of options';
  return JSON.stringify(one.length > 80 ? `${one.slice(0, 79)}…` : one);
}

/** A decision that an execution came to: the labels of what was possible, with the one that was taken. */
export interface Decision {
  readonly options: readonly Option[];
  readonly taken: number;
  /** What had been spent before it. */
  readonly spent: Required<Cost>;
}

/** Plays a tape, and records what else would have been possible. */
export class Player {
  readonly decisions: Decision[] = [];
  readonly #tape: Tape;
  /** The labels at each decision of the tape, where they are known. */
  readonly #expected: readonly string[] | undefined;
  readonly #bounds: Bounds;
  #spent: Record<Spending, number> = ofEach(0);

  constructor(tape: Tape, bounds: Bounds, expected?: readonly string[]) {
    this.#tape = tape;
    this.#bounds = bounds;
    this.#expected = expected;
  }

  /** What was chosen last is the first that is no plain going on, and nothing else is to come. */
  get isLastTrouble(): boolean {
    return this.decisions.length >= this.#tape.length && this.decisions.filter(one => one.taken > 0).length === 1;
  }

  get spent(): Required<Cost> {
    return this.#spent;
  }

  /** True when the execution may still spend this. */
  affords(cost: Cost): boolean {
    const total = SPENDINGS.reduce((sum, kind) => sum + this.#spent[kind], 0);
    if (total + costOf(cost) > this.#bounds.total) return false;
    return SPENDINGS.every(kind => (cost[kind] ?? 0) === 0 || this.#spent[kind] + cost[kind]! <= this.#bounds[kind]);
  }

  /**
   * The index of the option to take. Options that cannot be afforded must have been left out, so that equal prefixes see equal
   * options.
   *
   * @throws Diverged where the options are not those of the last time
   */
  choose(options: readonly Option[]): number {
    const at = this.decisions.length;
    const labels = labelsOf(options);
    const expected = this.#expected?.[at];
    if (expected !== undefined && expected !== labels) throw new Diverged(at, expected, labels);
    const taken = this.#tape[at] ?? 0;
    if (taken >= options.length) throw new Diverged(at, `one of at least ${taken + 1} options`, labels);
    return this.take(options, taken);
  }

  protected take(options: readonly Option[], taken: number): number {
    this.decisions.push({ options, taken, spent: this.#spent });
    const { cost } = options[taken]!;
    if (costOf(cost) > 0) {
      this.#spent = { ...this.#spent };
      for (const kind of SPENDINGS) this.#spent[kind] += cost[kind] ?? 0;
    }
    return taken;
  }
}

export function labelsOf(options: readonly Option[]): string {
  return options.map(option => option.label).join(' | ');
}

/** A tape as text that survives a shell, an issue tracker and a URL. */
export function tokenOf(tape: Tape, plan: string): string {
  const bytes: number[] = [];
  for (let i = 0; i < tape.length; i++) {
    const choice = tape[i]!;
    if (choice !== 0) {
      bytes.push(0x80 | choice);
      continue;
    }
    let zeros = 1;
    while (zeros < 0x7f && tape[i + 1] === 0) {
      zeros++;
      i++;
    }
    bytes.push(zeros);
  }
  return `${plan}-${Buffer.from(bytes).toString('base64url')}`;
}

/** The other way; undefined for what is no token. `plan` tells whether the token is of the same handler, messages and bounds. */
export function tapeOf(token: string): { readonly plan: string; readonly tape: Tape } | undefined {
  const [, plan, text] = /^([0-9a-f]{8})-([A-Za-z0-9_-]*)$/.exec(token) ?? [];
  if (plan === undefined || text === undefined) return undefined;
  const tape: number[] = [];
  for (const byte of Buffer.from(text, 'base64url')) {
    if (byte & 0x80) tape.push(byte & 0x7f);
    else tape.push(...Array.from({ length: byte }, () => 0));
  }
  return { plan, tape };
}
