/** Deliveries of one run, by how fast a shape is: long enough to time, short enough that rivals meet the same machine. */
export interface Sizes {
  readonly perMessage: number;
  readonly inOrder: number;
  readonly overlap: number;
  readonly batch: number;
}

export const FULL: Sizes = { perMessage: 4_000, inOrder: 6_000, overlap: 20_000, batch: 60_000 };
export const QUICK: Sizes = { perMessage: 1_000, inOrder: 2_000, overlap: 6_000, batch: 15_000 };
