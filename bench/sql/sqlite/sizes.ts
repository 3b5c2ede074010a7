/** Deliveries of one run. */
export interface Sizes {
  readonly single: number;
  readonly batch: number;
}

export const FULL: Sizes = { single: 5_000, batch: 60_000 };
export const QUICK: Sizes = { single: 500, batch: 15_000 };
