import { describe, expect, test } from "vitest";
import type { Stacks } from "../../src/data/stacks";
import { shortStack } from "../../src/flame/stack-lines";
import { boxesOf, FlameTree, ROOT, UNKNOWN_STACK } from "../../src/flame/tree";
import { sampleOf } from "../../src/live/sample";

/**
 * main calls forward and loss; forward calls linear. Row numbers: main 0, forward 1, linear 2, loss 3, and another
 * outermost line 4 that allocates nothing.
 */
const ROWS = { frame: Uint32Array.of(0, 1, 2, 3, 4), caller: Int32Array.of(-1, 0, 1, 0, -1) };

function treeOf(...allocations: [stack: number, bytes: number][]): FlameTree {
  return new FlameTree(ROWS, {
    stacks: Int32Array.from(allocations, ([stack]) => stack),
    bytes: Float64Array.from(allocations, ([, bytes]) => bytes),
  });
}

const TREE = treeOf([2, 600], [1, 100], [3, 200], [-1, 100], [2, 0], [3, Number.NaN]);

describe("a flame graph", () => {
  test("adds up everything that a line called", () => {
    const bytes = [ROOT, UNKNOWN_STACK, 0, 1, 2, 3, 4].map((node) => TREE.bytesOf(node));
    expect(bytes).toEqual([1000, 100, 900, 700, 600, 200, 0]);
    const counts = [ROOT, UNKNOWN_STACK, 0, 1, 2, 3, 4].map((node) => TREE.countOf(node));
    expect(counts).toEqual([6, 1, 5, 3, 2, 2, 0]);
  });

  test("has the largest lines first", () => {
    expect(TREE.childrenOf(ROOT)).toEqual([0, UNKNOWN_STACK]);
    expect(TREE.childrenOf(0)).toEqual([1, 3]);
    expect(TREE.childrenOf(2)).toEqual([]);
    expect(treeOf([-1, 10], [4, 5]).childrenOf(ROOT)).toEqual([UNKNOWN_STACK, 4]);
  });

  test("knows the callers of a line", () => {
    expect(TREE.pathTo(2)).toEqual([ROOT, 0, 1, 2]);
    expect(TREE.pathTo(UNKNOWN_STACK)).toEqual([ROOT, UNKNOWN_STACK]);
    expect(TREE.pathTo(ROOT)).toEqual([ROOT]);
  });

  test("keeps the zoom at the innermost caller that still has memory", () => {
    const later = treeOf([3, 10]);
    expect([2, 1, 0, 3, 4, ROOT].map((node) => later.nearest(node))).toEqual([0, 0, 0, 3, ROOT, ROOT]);
  });

  test("counts a match once, with everything that it called", () => {
    const matched = (...nodes: number[]) => TREE.matched((node) => nodes.includes(node));
    expect(matched(1, 2)).toBe(700);
    expect(matched(2, 3)).toBe(800);
    expect(matched(0)).toBe(900);
    expect(matched()).toBe(0);
  });

  test("places boxes below their callers", () => {
    const places = boxesOf(TREE, ROOT, 0, 100).map(({ node, left, width, depth }) => [
      node,
      left,
      width,
      depth,
    ]);
    expect(places).toEqual([
      [ROOT, 0, 1, 0],
      [0, 0, 0.9, 1],
      [UNKNOWN_STACK, 0.9, 0.1, 1],
      [1, 0, 0.7, 2],
      [3, 0.7, 0.2, 2],
      [2, 0, 0.6, 3],
    ]);
  });

  test("shows the callers of a zoomed line across the whole width", () => {
    const boxes = boxesOf(TREE, 1, 0, 100);
    expect(boxes.map(({ node, isCaller }) => [node, isCaller])).toEqual([
      [ROOT, true],
      [0, true],
      [1, false],
      [2, false],
    ]);
    expect(boxes[2].width).toBe(1);
    expect(boxes[3].width).toBeCloseTo(6 / 7);
  });

  test("leaves out boxes that can't be seen, and those beyond the limit", () => {
    expect(boxesOf(TREE, ROOT, 0.15, 100).map(({ node }) => node)).toEqual([ROOT, 0, 1, 3, 2]);
    expect(boxesOf(TREE, ROOT, 0, 3)).toHaveLength(3);
  });

  test("of nothing has only the root", () => {
    expect(boxesOf(treeOf(), ROOT, 0, 100)).toHaveLength(1);
    expect(treeOf().bytesOf(ROOT)).toBe(0);
  });
});

describe("a stack in a tooltip", () => {
  /** Stacks whose lines are the numbers of `frames`, innermost first; negative ones are in libraries. */
  const stacksOf = (frames: number[]) =>
    ({ framesOf: () => frames, isLibrary: (frame: number) => frame < 0 }) as unknown as Stacks;

  test("has the lines of the program", () => {
    expect(shortStack(stacksOf([-1, -2, 3, -4, 5]), 0)).toEqual({ lines: [3, 5], others: 3 });
  });

  test("has the innermost lines if there is no program", () => {
    expect(shortStack(stacksOf([-1, -2, -3, -4, -5, -6, -7]), 0)).toEqual({
      lines: [-1, -2, -3, -4, -5],
      others: 2,
    });
  });
});

test("a sample of rows has the last one", () => {
  const rows = Uint32Array.from({ length: 100 }, (_, row) => row * 2);
  expect(sampleOf(rows, 100)).toBe(rows);
  expect([...sampleOf(rows, 10)]).toEqual([18, 38, 58, 78, 98, 118, 138, 158, 178, 198]);
  expect(sampleOf(new Uint32Array(), 10)).toHaveLength(0);
});
