// Helpers for summaries. Their type is generated from the output of `ttmem summary --json`; docs/json.md documents the
// fields.

import type { Level, RankSummary } from "../generated/answers";

/** Whether the device has banks, tiles and compiled graphs; if their data is missing, the page says so. */
export function isTenstorrent({ device }: Pick<RankSummary, "device">): boolean {
  return device === "tenstorrent";
}

/** Whether the largest free block of any pool is known. */
export function hasPieces({ pools, fragmentation }: Pick<RankSummary, "pools" | "fragmentation">): boolean {
  return (
    Object.keys(fragmentation).length > 0 ||
    Object.values(pools).some((pool) => pool.largest_free_at_peak_per_bank !== null)
  );
}

const URGENCY: Record<Level, number> = { full: 2, high: 1, ok: 0 };

/**
 * Sorts pools by importance: the pool that ran out of memory, full and almost full pools, the main pool of the summary,
 * and the others by their share of the capacity.
 */
export function byImportance<Pool extends { name: string }>(
  pools: readonly Pool[],
  { oom, peak, pools: summaries }: Pick<RankSummary, "oom" | "peak" | "pools">,
): Pool[] {
  const keysOf = ({ name }: Pool): number[] => {
    const {
      level = null,
      peak_per_bank: used = null,
      capacity_per_bank: capacity = null,
    } = summaries[name] ?? {};
    const urgency = level === null ? 0 : URGENCY[level];
    const share = used !== null && capacity ? used / capacity : -1;
    return [Number(name === oom?.pool), urgency, urgency > 0 ? share : 0, Number(name === peak?.pool), share];
  };
  const keys = new Map(pools.map((pool) => [pool, keysOf(pool)]));
  const compare = (a: Pool, b: Pool): number => {
    const [first, second] = [keys.get(a)!, keys.get(b)!];
    const differs = first.findIndex((key, at) => key !== second[at]);
    return differs < 0 ? 0 : second[differs] - first[differs];
  };
  return pools.toSorted(compare);
}

/** The title of a rank among others: its process, its tag or its number. */
export function rankTitle({ rank, process, processes }: RankSummary, index: number): string {
  const tag = rank === null ? "" : `rank ${rank}`;
  if (processes > 1) return [`process ${process}`, tag].filter(Boolean).join(", ");
  return tag || `rank ${index}`;
}
