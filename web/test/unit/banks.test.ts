import { describe, expect, it } from "vitest";
import { bankWords, poolText } from "../../src/banks";
import { isCompiled, tellsPieces } from "../../src/data/compiled";
import type { PoolSummary, RankSummary } from "../../src/data/summary";

const GIB = 2 ** 30;

describe("words for the figures of a pool", () => {
  it("speak of banks where there are several, or nobody knows how many", () => {
    for (const banks of [2, 12, 0, null, undefined]) {
      expect(bankWords(banks).perBank).toBe(" per bank");
      expect(bankWords(banks).heading).toBe("Per bank");
      expect(bankWords(banks).inside("L1")).toBe("each bank of L1");
    }
  });

  it("speak of none where the pool is one piece", () => {
    const { inside, ...words } = bankWords(1);
    expect([inside("cpu"), ...Object.values(words)].join(" ")).not.toMatch(/bank/i);
    expect(inside("cuda:0")).toBe("cuda:0");
  });

  it("say what a pool has room for", () => {
    expect(poolText("DRAM", 12, GIB)).toBe("DRAM 12 banks × 1.00 GiB");
    expect(poolText("DRAM", 12, null)).toBe("DRAM 12 banks × of unknown size");
    expect(poolText("L1", null, null)).toBe("L1 of unknown size");
    expect(poolText("cuda:0", 1, 80 * GIB)).toBe("cuda:0 80.00 GiB");
    expect(poolText("cpu", 1, null)).toBeNull();
  });
});

describe("what can be known of a program", () => {
  const pool = (of: Partial<PoolSummary>): PoolSummary => ({
    ...{ banks: 1, capacity_per_bank: null, peak_per_bank: 8, peak_total: 8, peak_step: 1 },
    ...{ caused_by_step: 0, final_per_bank: 8, final_total: 8, final_source: "measured" as const },
    ...{ free_at_peak_per_bank: null, largest_free_at_peak_per_bank: null, quantum_per_bank: 0 },
    ...of,
  });
  const rank = (of: Partial<RankSummary>): RankSummary =>
    ({
      ...{ runs: 0, weights: null, inputs: null, padding: null, fragmentation: {} },
      ...{ pools: { cpu: pool({}), host: pool({}) } },
      ...of,
    }) as unknown as RankSummary;

  it("a program that no compiler saw has no graphs and no tiles", () => {
    expect(isCompiled(rank({}))).toBe(false);
  });

  it("one sign of a device or of a compiler is enough", () => {
    const signs: Partial<RankSummary>[] = [
      { runs: 1 },
      { weights: { count: 0, bytes: 0, kept_twice_bytes: null } },
      { inputs: { count: 0, bytes: 0 } },
      { padding: { padded_bytes: 0, logical_bytes: 0, overhead_pct: null } },
      { pools: { DRAM: pool({}), L1: pool({ banks: null }) } },
      { pools: { DRAM: pool({ banks: 12 }) } },
      { pools: {} },
    ];
    for (const sign of signs) expect(isCompiled(rank(sign)), JSON.stringify(sign)).toBe(true);
  });

  it("pieces are known where a reading has them", () => {
    expect(tellsPieces(rank({}))).toBe(false);
    expect(tellsPieces(rank({ pools: { cpu: pool({ largest_free_at_peak_per_bank: 0 }) } }))).toBe(true);
    const worst = { step: 1, free_per_bank: 8, largest_free_per_bank: 4, blocks: null };
    expect(tellsPieces(rank({ fragmentation: { cpu: worst } }))).toBe(true);
  });
});
