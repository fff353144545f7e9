import { describe, expect, test } from "vitest";
import { Curve, Kind, Lists, Mark, type Pool, type Rank } from "../../src/data/report";
import { heldBefore, marksOf } from "../../src/operations/facts";
import { StepSearch } from "../../src/operations/search";

const TEXTS = ["ttnn.matmul", "ttnn.deallocate", '"Model.Layer1"', "1x32x64", "bf16", "main", "decode"];

/** Steps: a matmul and its deallocation in the program main, then both again in decode. */
const rank = {
  end: 4,
  steps: { op: Uint32Array.of(0, 1, 0, 1), run: Int32Array.of(0, 0, 1, -1) },
  ops: {
    name: Uint32Array.of(0, 1),
    loc: Int32Array.of(2, -1),
    kind: Uint32Array.of(Kind.Compute, Kind.Deallocate),
    resultTypes: new Lists(Uint32Array.of(1, 0), Int32Array.of(0)),
    operandTypes: new Lists(Uint32Array.of(1, 1), Int32Array.of(-1, 0)),
  },
  runs: { program: Uint32Array.of(5, 6), number: Uint32Array.of(1, 2) },
  types: { shape: Uint32Array.of(3), dtype: Uint32Array.of(4) },
  report: { texts: { length: TEXTS.length, get: (text: number) => TEXTS[text] } },
} as unknown as Rank;

describe("step search", () => {
  const search = new StepSearch(rank);
  const find = (query: string, deallocations = true, run: number | null = null) => [
    ...search.find({ query, deallocations, run }),
  ];

  test("an empty query finds everything", () => {
    expect(find("")).toEqual([0, 1, 2, 3]);
    expect(find("  ")).toEqual([0, 1, 2, 3]);
  });

  test("searches operation, location, shapes, element types and program, ignoring case", () => {
    expect(find("MatMul")).toEqual([0, 2]);
    expect(find("model.layer1")).toEqual([0, 2]);
    expect(find("1x32x64")).toEqual([0, 1, 2, 3]);
    expect(find("bf16")).toEqual([0, 1, 2, 3]);
    expect(find("decode")).toEqual([2]);
    expect(find("absent")).toEqual([]);
  });

  test("all words must match, in any column", () => {
    expect(find("main deallocate")).toEqual([1]);
    expect(find("layer1 decode")).toEqual([2]);
  });

  test("a number also finds the step", () => {
    expect(find("3")).toEqual([0, 1, 2, 3]);
    expect(find("0")).toEqual([0]);
    expect(find("2 matmul")).toEqual([0, 2]);
  });

  test("deallocations and other runs can be filtered out", () => {
    expect(find("", false)).toEqual([0, 2]);
    expect(find("", true, 2)).toEqual([2]);
  });
});

test("the memory before each step is the last change up to its late side", () => {
  const pool = { held: new Curve(Uint32Array.of(2, 3, 3, 6), Float64Array.of(10, 20, 30, 40)) };
  const rank = { end: 4, hasTensors: true } as unknown as Rank;
  expect([...heldBefore(rank, pool as unknown as Pool)]).toEqual([Number.NaN, 30, 30, 40]);
});

test("marks have names", () => {
  expect(marksOf(Mark.Weight | Mark.CacheMiss).map(({ word }) => word)).toEqual(["weight", "cache miss"]);
  expect(marksOf(0)).toEqual([]);
});
