/** Deliveries of one run. */
export interface Sizes {
  readonly perMessage: number;
  readonly batch: number;
}

export const FULL: Sizes = { perMessage: 5_000, batch: 60_000 };
export const QUICK: Sizes = { perMessage: 1_000, batch: 15_000 };
