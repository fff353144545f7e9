import { describe, expect, it } from "vitest";
import { bankWords, poolText } from "../../src/banks";
import { hasPieces, isTenstorrent } from "../../src/data/summary";
import type { Fragmentation, PoolSummary } from "../../src/generated/answers";

const GIB = 2 ** 30;

describe("words for the figures of a pool", () => {
  it("speak of what the sizes are sizes of", () => {
    expect(bankWords("bank").perBank).toBe(" per bank");
    expect(bankWords("bank").heading).toBe("Per bank");
    expect(bankWords("bank").inside("L1")).toBe("each bank of L1");
    expect(bankWords("core").perBank).toBe(" per core");
    expect(bankWords("core").inside("L1")).toBe("each core of L1");
  });

  it("speak of none where the pool is one piece", () => {
    const { inside, ...words } = bankWords("device");
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
  const pool = (largest: number | null) => ({ largest_free_at_peak_per_bank: largest }) as PoolSummary;

  it("graphs and tiles are those of Tenstorrent's devices", () => {
    expect(isTenstorrent({ device: "tenstorrent" })).toBe(true);
    expect(isTenstorrent({ device: "torch" })).toBe(false);
    expect(isTenstorrent({ device: null })).toBe(false);
  });

  it("pieces are known where a reading has them", () => {
    expect(hasPieces({ pools: { cpu: pool(null) }, fragmentation: {} })).toBe(false);
    expect(hasPieces({ pools: { cpu: pool(0) }, fragmentation: {} })).toBe(true);
    const worst = { free_per_bank: 8, largest_free_per_bank: 4 } as Fragmentation;
    expect(hasPieces({ pools: {}, fragmentation: { cpu: worst } })).toBe(true);
  });
});
