import { describe, expect, test } from "vitest";
import { byImportance } from "../../src/data/summary";
import type { Level, RankSummary } from "../../src/generated/answers";

type Part = Pick<RankSummary, "oom" | "peak" | "pools">;

/** The order of pools, given by name, level and share of the capacity (`null` if it is unknown). */
function order(
  pools: [name: string, level: Level | null, share: number | null][],
  { main = null, oom = null }: { main?: string | null; oom?: string | null } = {},
): string[] {
  const summaries = pools.map(([name, level, share]) => [
    name,
    {
      level,
      peak_per_bank: share === null ? 5 : share * 1000,
      capacity_per_bank: share === null ? null : 1000,
    },
  ]);
  const summary = {
    oom: oom === null ? null : { pool: oom },
    peak: main === null ? null : { pool: main },
    pools: Object.fromEntries(summaries),
  } as unknown as Part;
  return byImportance(
    pools.map(([name]) => ({ name })),
    summary,
  ).map(({ name }) => name);
}

describe("the order of pools", () => {
  test("starts with the pool that ran out of memory", () => {
    const pools: Parameters<typeof order>[0] = [
      ["DRAM", "full", 0.99],
      ["L1", "ok", 0.1],
      ["L1_SMALL", "ok", 0],
    ];
    expect(order(pools, { oom: "L1_SMALL", main: "L1_SMALL" })).toEqual(["L1_SMALL", "DRAM", "L1"]);
  });

  test("has full pools before almost full ones, and of these the fullest first", () => {
    expect(
      order(
        [
          ["DRAM", "ok", 0.5],
          ["L1", "high", 0.85],
          ["TRACE", "high", 0.9],
          ["L1_SMALL", "full", 0.97],
        ],
        { main: "DRAM" },
      ),
    ).toEqual(["L1_SMALL", "TRACE", "L1", "DRAM"]);
  });

  test("has the main pool first if none is almost full, then the others by share", () => {
    expect(
      order(
        [
          ["cpu", null, null],
          ["host", null, null],
          ["cuda:0", "ok", 0.01],
          ["cuda:1", "ok", 0.3],
        ],
        { main: "cuda:0" },
      ),
    ).toEqual(["cuda:0", "cuda:1", "cpu", "host"]);
    expect(
      order(
        [
          ["DRAM", "ok", 0.02],
          ["L1", "ok", 0.1],
        ],
        { main: "DRAM" },
      ),
    ).toEqual(["DRAM", "L1"]);
  });

  test("is that of the input if nothing is known", () => {
    expect(
      order([
        ["b", null, null],
        ["a", null, null],
        ["c", null, null],
      ]),
    ).toEqual(["b", "a", "c"]);
    expect(order([])).toEqual([]);
  });
});
