// What the page asks of a summary. Its type is made from the answer of `ttmem summary --json`; docs/json.md says what each
// field means.

import type { RankSummary } from "../generated/answers";

/** Whether there can be banks, tiles and compiled graphs; where nothing is known of them, the page says so. */
export function isTenstorrent({ device }: Pick<RankSummary, "device">): boolean {
  return device === "tenstorrent";
}

/** Whether it is known of a pool how much of its free memory is in one piece. */
export function hasPieces({ pools, fragmentation }: Pick<RankSummary, "pools" | "fragmentation">): boolean {
  return (
    Object.keys(fragmentation).length > 0 ||
    Object.values(pools).some((pool) => pool.largest_free_at_peak_per_bank !== null)
  );
}

/** What a rank is called beside others: by its process, its tag, or its number. */
export function rankTitle({ rank, process, processes }: RankSummary, index: number): string {
  const tag = rank === null ? "" : `rank ${rank}`;
  if (processes > 1) return [`process ${process}`, tag].filter(Boolean).join(", ");
  return tag || `rank ${index}`;
}
