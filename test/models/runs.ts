/** What spin is asked, and what it has to answer: the table of docs/models.md. */

export type ModelName = 'inbox' | 'lease' | 'position';

export interface Model {
  readonly name: ModelName;
  /** What must never be reached where the protocol is right, by its name in the model. */
  readonly never: Readonly<Record<string, string>>;
  /** What must be reached, or the model proves nothing: that it never happens is a property that fails. */
  readonly sometimes: Readonly<Record<string, string>>;
}

export const MODELS: readonly Model[] = [
  {
    name: 'inbox',
    never: {
      twice: 'a second effect is committed',
      lost: 'a message is acked whose effect is not committed',
    },
    sometimes: {
      ack_arrived: 'a message is acked',
      redelivered: 'a message that was not acked comes again',
      late_copy: 'a message that was acked comes again',
      two_at_work: 'a copy comes while another is at work',
      claim_waited: 'a claim waits for the transaction of another',
      copy_found: 'a claim finds the row of another',
      cut_off: 'a connection is cut in a transaction',
      reply_lost: 'a commit is carried out, and its reply is lost',
      landed_after_crash: 'a commit is carried out after its sender has died',
      crashed: 'a worker dies',
    },
  },
  {
    name: 'lease',
    never: {
      twice: 'the effect happens a second time',
      lost: 'a message is acked, its effect has not happened, and nobody is at work on it',
      stale: 'an effect of an earlier owner comes after one of a later owner',
    },
    sometimes: {
      ack_arrived: 'a message is acked',
      redelivered: 'a message that was not acked comes again',
      taken_over: 'a lease runs out, and another owner claims',
      found_busy: 'a claim finds a live owner',
      copy_found: 'a claim finds a completed message',
      completion_refused: 'an owner that was replaced completes, and is refused',
      renewal_refused: 'an owner learns by renewing that it was replaced',
      given_up: 'a claim is given up',
      reply_lost: 'a call is carried out, and its reply is lost',
      arrived_late: 'a claim is carried out that nobody waits for any more',
      completed_late: 'a completion is carried out that nobody waits for any more',
      crashed: 'a worker dies',
    },
  },
  {
    name: 'position',
    never: {
      twice: 'a batch is committed a second time',
      skipped: 'the position moves past what is not done',
      overtaken: 'a batch is committed after a later owner has taken the lane',
      told_too_much: 'the source is told more than the position says',
    },
    sometimes: {
      all_done: 'the lane comes to its end',
      taken_over: 'a lane is taken over',
      two_owners: 'two believe to own the lane',
      waited: 'a move waits for the transaction of another',
      refused: 'a move is refused',
      cut_off: 'a connection is cut in a transaction',
      landed_after_crash: 'a commit is carried out after its sender has died',
      doubt_committed: 'a commit without a reply turns out to be committed',
      doubt_not_committed: 'a commit without a reply turns out to be none',
      crashed: 'an owner dies',
    },
  },
];

export interface Run {
  readonly model: ModelName;
  readonly name: string;
  /** The switches of the model that are not at their default. */
  readonly defines: Readonly<Record<string, number>>;
  /** What is reached that must never be; the search is complete, so that the model's others hold. Empty: all hold. */
  readonly reached: readonly string[];
  /** For the full counts of `npm run test:long`. */
  readonly long?: true;
}

const inbox = (name: string, defines: Run['defines'], ...reached: string[]): Run => ({
  model: 'inbox',
  name,
  defines,
  reached,
});
const lease = (name: string, defines: Run['defines'], ...reached: string[]): Run => ({
  model: 'lease',
  name,
  defines,
  reached,
});
const position = (name: string, defines: Run['defines'], ...reached: string[]): Run => ({
  model: 'position',
  name,
  defines,
  reached,
});

export const RUNS: readonly Run[] = [
  inbox('claim, effect and record in one transaction', {}),
  { ...inbox('the same, two messages', { MESSAGES: 2 }), long: true },
  inbox('acked when it arrives', { ACK_FIRST: 1 }, 'lost'),
  inbox('no unique key: looked for, then inserted', { NO_UNIQUE_KEY: 1 }, 'twice'),
  inbox('the mark is committed before the effect', { MARK_FIRST: 1 }, 'lost'),
  inbox('the mark is committed after the effect', { MARK_LAST: 1 }, 'twice'),
  inbox('a claim that is not committed yet counts as done', { BUSY_IS_DONE: 1 }, 'lost'),
  inbox('a commit without a reply counts as committed', { COMMIT_REPLY_IGNORED: 1 }, 'lost'),
  inbox('a commit without a reply: the mark is deleted, and all done again', { UNCLAIM_ON_ERROR: 1 }, 'twice'),
  inbox('the effect is outside the transaction', { EFFECT_OUTSIDE: 1 }, 'twice'),
  inbox('the effect is outside, and its receiver knows the message id', { EFFECT_OUTSIDE: 1, SINK_HAS_KEYS: 1 }),
  inbox('rows are deleted while copies may still come', { FORGETS: 1 }, 'twice'),

  lease('no fence, effect outside', { NO_FENCE: 1 }, 'twice', 'stale'),
  lease('fence, effect outside: what `redisStore` does', {}, 'twice', 'stale'),
  lease('fence, effect outside, its receiver checks tokens', { SINK_HAS_TOKENS: 1 }, 'twice'),
  lease('fence, effect outside, its receiver knows the message id', { SINK_HAS_KEYS: 1 }),
  lease('no fence, effect in the completing transaction', { NO_FENCE: 1, INSIDE: 1 }, 'twice', 'stale'),
  lease('fence, effect in the completing transaction', { INSIDE: 1 }),
  lease('… acked when it arrives', { INSIDE: 1, ACK_FIRST: 1 }, 'lost'),
  lease('… a busy message counts as done', { INSIDE: 1, BUSY_IS_DONE: 1 }, 'lost'),
  lease('… a completion without an answer counts as recorded', { INSIDE: 1, REPLY_IGNORED: 1 }, 'lost'),
  lease('… a claim is given up by whoever says so', { INSIDE: 1, RELEASE_UNCHECKED: 1 }, 'twice'),
  lease('`at-most-once`: completed first, handled after it', { AT_MOST_ONCE: 1 }, 'lost'),
  lease('… and nobody dies', { AT_MOST_ONCE: 1, NO_CRASH: 1 }),
  lease(
    '… and nobody dies, but what was not answered is claimed by a new nonce',
    { AT_MOST_ONCE: 1, NO_CRASH: 1, NEW_NONCE: 1 },
    'lost',
  ),
  lease('the store forgets, the receiver knows the message id', { FORGETS: 1, SINK_HAS_KEYS: 1, CLAIMS: 2 }),
  lease('the store forgets, the receiver checks tokens', { FORGETS: 1, SINK_HAS_TOKENS: 1, CLAIMS: 2 }, 'twice'),
  lease(
    '… and tokens begin again at the first',
    { FORGETS: 1, SINK_HAS_TOKENS: 1, TOKENS_RESTART: 1, CLAIMS: 2 },
    'twice',
    'stale',
  ),

  position('the move compares epoch and place', {}),
  position('it compares the place alone', { NO_EPOCH: 1, EPOCHS: 3 }, 'overtaken'),
  position('it compares the epoch alone', { NO_PLACE: 1 }),
  position(
    'looked at first, written at the end without a lock',
    { UNLOCKED: 1, EPOCHS: 3 },
    'twice',
    'overtaken',
    'told_too_much',
  ),
  position('a move of no row is committed', { ROWS_IGNORED: 1, EPOCHS: 3 }, 'twice', 'overtaken', 'told_too_much'),
  position('the place is read before the epoch is raised', { READ_BEFORE: 1 }),
  position(
    '… and the move compares the epoch alone',
    { READ_BEFORE: 1, NO_PLACE: 1, EPOCHS: 3 },
    'twice',
    'told_too_much',
  ),
  position('a commit without a reply is settled by a read', { DOUBT_READS: 1, EPOCHS: 3 }),
  position(
    '… and the move compares the epoch alone',
    { DOUBT_READS: 1, NO_PLACE: 1, EPOCHS: 2 },
    'twice',
    'told_too_much',
  ),
  position('a commit without a reply counts as committed', { DOUBT_IGNORED: 1, EPOCHS: 3 }, 'told_too_much'),
  position(
    '… and the move compares the epoch alone',
    { DOUBT_IGNORED: 1, NO_PLACE: 1, EPOCHS: 2 },
    'twice',
    'skipped',
    'told_too_much',
  ),
  position('the source is told before the commit', { TELL_FIRST: 1 }, 'told_too_much'),
];

/** The tables of docs/models.md. */
export function tables(): string {
  return MODELS.map(({ name, never, sometimes }) => {
    const runs = RUNS.filter(run => run.model === name);
    return [
      `### \`models/${name}.pml\``,
      '',
      ['', 'protocol', 'switches', ...Object.keys(never), ''].join(' | ').trim(),
      `|${'---|'.repeat(2 + Object.keys(never).length)}`,
      ...runs.map(run =>
        [
          '',
          `${run.name}${run.long ? ' (`test:long`)' : ''}`,
          Object.entries(run.defines)
            .map(([define, value]) => `\`${value === 1 ? define : `${define}=${value}`}\``)
            .join(' '),
          ...Object.keys(never).map(what => (run.reached.includes(what) ? '**happens**' : 'never')),
          '',
        ]
          .join(' | ')
          .trim(),
      ),
      '',
      ...Object.entries(never).map(([what, words]) => `- ${what}: ${words}.`),
      '',
      `What has to happen, or the model says nothing: ${Object.values(sometimes).join('; ')}.`,
      '',
    ].join('\n');
  }).join('\n');
}

// node test/models/runs.ts: prints them, for the page.
if (import.meta.main) console.log(tables());
