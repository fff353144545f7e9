import { describe, expect, it } from "vitest";
import { paddingCurves } from "../../src/charts/padding-curves";
import { NEVER, type Rank } from "../../src/data/report";

describe("paddingCurves", () => {
  const rank = {
    end: 4,
    tensors: {
      pool: Uint32Array.of(0, 0, 1, 0, 0, 0),
      type: Int32Array.of(0, 1, 0, -1, 2, 1),
      born: Uint32Array.of(0, 2, 0, 0, 0, 4),
      dies: Uint32Array.of(NEVER, 6, NEVER, NEVER, NEVER, 4),
    },
    types: { logical: Float64Array.of(10, 100, Number.NaN), padded: Float64Array.of(32, 128, 64) },
  } as unknown as Rank;
  const { padded, logical, known, unknown } = paddingCurves(rank, 0);

  it("adds tensors when they are allocated and subtracts them when they are freed", () => {
    const at = [0, 1, 2, 5, 6, 9];
    expect(at.map((moment) => padded.valueAt(moment))).toEqual([32, 32, 160, 160, 32, 32]);
    expect(at.map((moment) => logical.valueAt(moment))).toEqual([10, 10, 110, 110, 10, 10]);
  });

  it("counts skipped tensors (no type or no size), but not those that were never live", () => {
    expect([known, unknown]).toEqual([2, 2]);
  });

  it("is computed once", () => {
    expect(paddingCurves(rank, 0).padded).toBe(padded);
  });
});
