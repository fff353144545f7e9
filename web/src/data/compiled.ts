// Whether the evidence is of a program that a compiler made for a device, or of one that runs without, as PyTorch's do.

import type { RankSummary } from "./summary";

/**
 * Whether graphs, what they declare, and tiles are worth asking for. Where one of them is known they are; where a pool
 * lies in banks, or in nobody knows how many, the evidence is of such a device and could have told. What has neither
 * is of a program that no compiler saw: there they are not unknown, there are none.
 */
export function isCompiled({ runs, weights, inputs, padding, pools }: RankSummary): boolean {
  const all = Object.values(pools);
  return (
    runs > 0 ||
    weights !== null ||
    inputs !== null ||
    padding !== null ||
    all.length === 0 ||
    all.some(({ banks }) => banks !== 1)
  );
}

/** Whether it is known of a pool how much is free, and how much of that is in one piece. */
export function tellsPieces({ pools, fragmentation }: RankSummary): boolean {
  const isKnown = (bytes: number | null) => bytes !== null;
  return (
    Object.keys(fragmentation).length > 0 ||
    Object.values(pools).some((pool) => isKnown(pool.largest_free_at_peak_per_bank))
  );
}
