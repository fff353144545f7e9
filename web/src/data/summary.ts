// Helpers for summaries. Their type is generated from the output of `ttmem summary --json`; docs/json.md documents the
// fields.

import type { PoolSummary, RankSummary } from "../generated/answers";

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

/** Whether the input has programs or tensors in L1, and the addresses or the layout of L1. */
export function hasL1({ l1, pools }: Pick<RankSummary, "l1" | "pools">): boolean {
  const isUsed = (pool: PoolSummary | undefined) => (pool?.peak_per_bank ?? 0) > 0;
  return l1 !== null && (l1.programs > 0 || isUsed(pools.L1) || isUsed(pools.L1_SMALL));
}

/** Whether a pool can hold anything. A device without a trace region has a pool of 0 bytes. */
export function hasRoom(pool: PoolSummary | undefined): boolean {
  return pool?.capacity_per_bank !== 0 || (pool.peak_per_bank ?? 0) > 0;
}

/** The names of the input formats, as on the command line. */
const FORMATS: Record<string, string> = {
  tt_log: "Tenstorrent runtime log",
  tt_json: "JSON files of a report",
  tt_train: "training log",
  ttmem: "ttmem profile",
  memory_profile: "memory profile",
  ttnn_graph: "ttnn graph capture",
  ttnn_db: "ttnn database",
  ttrt_memory: "ttrt memory results",
  torch_snapshot: "PyTorch memory snapshot",
  tracker: "phase recording",
};

export function formatName(format: string): string {
  return FORMATS[format] ?? format;
}

/** The names of tensor classes in the plural, for sums. */
const CLASSES: Record<string, string> = {
  weight: "weights",
  input: "inputs",
  argument: "arguments of unknown kind",
  activation: "activations",
  parameter: "parameters",
  gradient: "gradients",
  optimizer: "optimizer state",
  kv_cache: "KV caches",
  buffer: "buffers",
  temporary: "temporary tensors",
  workspace: "library workspaces",
  unknown: "unknown class",
};

export function className(name: string): string {
  return CLASSES[name] ?? name;
}

/** The title of a rank among others: its process, its tag or its number. */
export function rankTitle({ rank, process, processes }: RankSummary, index: number): string {
  const tag = rank === null ? "" : `rank ${rank}`;
  if (processes > 1) return [`process ${process}`, tag].filter(Boolean).join(", ");
  return tag || `rank ${index}`;
}

/** Whether the true peak of a pool may be higher. */
export function isPeakAtLeast({ peak_source: source }: PoolSummary): boolean {
  return source === "sampled" || source === "recorded";
}
