import { describe, expect, it } from "vitest";
import { eachReading, worstMoments, worstShare } from "../../src/charts/fragments";
import { Curve, type Pool } from "../../src/data/report";

const curve = (...changes: [moment: number, value: number][]) =>
  new Curve(
    Uint32Array.from(changes, ([at]) => at),
    Float64Array.from(changes, ([, value]) => value),
  );
const poolOf = (free: Curve, largestFree: Curve, quantum = 0) => ({ free, largestFree, quantum }) as Pool;

describe("free memory in pieces", () => {
  it("is looked at whenever one of the curves changes", () => {
    const pool = poolOf(curve([1, 10], [5, 8]), curve([1, 10], [3, 4], [5, 8]));
    const found: number[][] = [];
    eachReading(pool, (...reading) => found.push(reading));
    expect(found).toEqual([
      [1, 10, 10],
      [3, 10, 4],
      [5, 8, 8],
    ]);
    expect(worstShare(pool)).toBe(0.6);
  });

  it("gives one moment for each region, the worst first", () => {
    const free = curve([1, 100]);
    const largest = curve([1, 100], [3, 90], [5, 60], [7, 80], [9, 100], [201, 30], [203, 100]);
    const found = worstMoments(poolOf(free, largest), 300, null, 10);
    expect(found.map(({ moment }) => moment)).toEqual([201, 5]);
  });

  it("begins with the worst of the summary and leaves out what rounding explains", () => {
    const pool = poolOf(curve([1, 100]), curve([1, 99], [50, 40], [60, 99]), 2);
    const worst = { moment: 51, free: 100, largest: 40 };
    expect(worstMoments(pool, 300, worst, 10)).toEqual([worst]);
  });
});
