/** What the process ends with. `nevertwice --help` and docs/cli.md list the same. */
export const EXIT = {
  done: 0,
  /** The command line, the module or the input is wrong: nothing will change until somebody changes it. */
  mistake: 1,
  /** The store cannot be reached, or its tables do not fit. */
  store: 2,
  /** `verify` found a way to do something twice or not at all. */
  convicted: 1,
  /** `verify` can say nothing. */
  unknown: 2,
  /** `demo` did not prove what it should. */
  unproven: 3,
  /** An error that nevertwice has no words for; shown with its stack. */
  unexpected: 70,
  /** Stopped by SIGINT before the end. */
  interrupted: 130,
  /** Stopped by SIGTERM before the end. */
  terminated: 143,
} as const;
