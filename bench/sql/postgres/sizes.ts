/** Deliveries of one run, by how fast a shape is: long enough to time, short enough that rivals meet the same machine. */
export interface Sizes {
  readonly single: number;
  readonly naive: number;
  readonly inOrder: number;
  readonly overlap: number;
  readonly batch: number;
}

export const FULL: Sizes = { single: 3_000, naive: 6_000, inOrder: 8_000, overlap: 30_000, batch: 60_000 };
export const QUICK: Sizes = { single: 300, naive: 1_200, inOrder: 2_000, overlap: 5_000, batch: 15_000 };
