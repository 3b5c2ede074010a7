/** Where a relay process of the kill runs can die. */
export const PLACES = [
  'read before',
  'read after',
  'publish before',
  'publish during',
  'publish after',
  'delete before',
  'delete during',
  'delete after',
] as const;

export interface RelayJob {
  readonly kind: 'postgres' | 'sqlite';
  readonly target: string;
  /** A file with a line for each publication. */
  readonly sink: string;
  readonly place?: (typeof PLACES)[number];
  /** At which arrival at the place it dies. */
  readonly nth?: number;
  /** It stops there (SIGSTOP) instead of dying. */
  readonly freezes?: boolean;
  /** How long each publication takes. */
  readonly slowMs?: number;
  readonly leaseMs: number;
}
