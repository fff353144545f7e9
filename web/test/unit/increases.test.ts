import { describe, expect, test } from "vitest";
import { largestIncreases } from "../../src/increases";

/** Steps given by operation, the type of the first result, and the effect. */
function increases(
  steps: [op: number, type: number, effect: number][],
  quantum = 0,
  locations: string[] = [],
) {
  const rank = {
    end: steps.length,
    steps: { op: steps.map((_, step) => step) },
    ops: {
      name: steps.map(([op]) => op),
      loc: steps.map((_, step) => (step < locations.length ? step : -1)),
      resultTypes: { get: (op: number) => [steps[op][1]] },
    },
    text: (id: number) => locations[id] ?? null,
    // Types 7 and 9 have the same shape and element type.
    types: { shape: [0, 0, 0, 0, 0, 0, 0, 1, 2, 1], dtype: Array(10).fill(5) },
  };
  const pool = { effect: Float64Array.from(steps, ([, , effect]) => effect), quantum };
  return largestIncreases(rank, pool, { from: 0, to: steps.length });
}

const row = (first: number, last: number, count: number, added: number) => ({
  first_step: first,
  last_step: last,
  count,
  added_per_bank: added,
  loc: null,
  locations: 0,
});

describe("the largest increases", () => {
  test("have one row for steps with the same operation, result and increase", () => {
    expect(
      increases([
        [1, 7, 100],
        [2, 7, 40],
        [1, 7, 100],
        [1, 8, 100],
        [1, 7, 50],
        [1, 7, 100],
      ]),
    ).toEqual([row(0, 5, 3, 100), row(3, 3, 1, 100), row(4, 4, 1, 50), row(1, 1, 1, 40)]);
  });

  test("skip decreases, unknown effects and the rounding error", () => {
    expect(
      increases(
        [
          [1, 7, -100],
          [2, 7, Number.NaN],
          [3, 7, 10],
          [4, 7, 11],
        ],
        10,
      ),
    ).toEqual([row(3, 3, 1, 11)]);
  });

  test("that differ by the rounding error, and types with the same content, are the same", () => {
    const rows: [number, number, number][] = [
      [1, 7, 1000],
      [1, 9, 1004],
      [1, 7, 1006],
    ];
    expect(increases(rows, 5)).toEqual([row(2, 2, 1, 1006), row(0, 1, 2, 1000)]);
  });

  test("have the location that their steps share, or its pattern", () => {
    const rows: [number, number, number][] = [0, 1, 2].map(() => [1, 7, 100]);
    const locations = (...texts: string[]) =>
      increases(rows, 0, texts).map(({ loc, locations }) => [loc, locations]);
    expect(locations('"cache.0"', '"cache.1"', '"cache.2"')).toEqual([['"cache.*"', 3]]);
    expect(locations('"a"')).toEqual([['"a"', 1]]);
    expect(locations('fused["a.0", "b"]', '"b"')).toEqual([['fused["a.0", "b"]', 2]]);
  });

  test("are at most ten", () => {
    expect(increases(Array.from({ length: 30 }, (_, at) => [1, 7, at + 1]))).toHaveLength(10);
  });
});
