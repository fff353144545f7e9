import { describe, expect, it } from "vitest";
import { bankWords, poolText } from "../../src/banks";
import { hasPieces, isTenstorrent } from "../../src/data/summary";
import type { Fragmentation, PoolSummary } from "../../src/generated/answers";

const GIB = 2 ** 30;

describe("words for a pool's sizes", () => {
  it("name the unit", () => {
    expect(bankWords("bank").perBank).toBe(" per bank");
    expect(bankWords("bank").suffix).toBe("/bank");
    expect(bankWords("bank").heading).toBe("Size/bank");
    expect(bankWords("core").perBank).toBe(" per core");
    expect(bankWords("core").heading).toBe("Size/core");
  });

  it("name no unit for an undivided pool", () => {
    expect(Object.values(bankWords("device")).join(" ")).not.toMatch(/bank/i);
    expect(bankWords("device").heading).toBe("Size");
  });

  it("include the capacity of a pool", () => {
    expect(poolText("DRAM", 12, GIB)).toBe("DRAM 12 banks × 1024.0 MiB");
    expect(poolText("DRAM", 12, null)).toBe("DRAM 12 banks of unknown size");
    expect(poolText("L1", null, null)).toBe("L1 of unknown size");
    expect(poolText("cuda:0", 1, 80 * GIB)).toBe("cuda:0 80.00 GiB");
    expect(poolText("cpu", 1, null)).toBeNull();
  });
});

describe("the properties of a summary", () => {
  const pool = (largest: number | null) => ({ largest_free_at_peak_per_bank: largest }) as PoolSummary;

  it("only Tenstorrent devices have graphs and tiles", () => {
    expect(isTenstorrent({ device: "tenstorrent" })).toBe(true);
    expect(isTenstorrent({ device: "torch" })).toBe(false);
    expect(isTenstorrent({ device: null })).toBe(false);
  });

  it("free blocks are known if any pool reports them", () => {
    expect(hasPieces({ pools: { cpu: pool(null) }, fragmentation: {} })).toBe(false);
    expect(hasPieces({ pools: { cpu: pool(0) }, fragmentation: {} })).toBe(true);
    const worst = { free_per_bank: 8, largest_free_per_bank: 4 } as Fragmentation;
    expect(hasPieces({ pools: {}, fragmentation: { cpu: worst } })).toBe(true);
  });
});
