import { describe, expect, test } from "vitest";
import { type Box, squarify } from "../../src/charts/treemap";

const INTO = { x: 10, y: 20, width: 600, height: 400 };

const area = ({ width, height }: Box): number => width * height;
const thinness = ({ width, height }: Box): number => Math.max(width / height, height / width);

function expectTiling(weights: number[], into: Box): Box[] {
  const boxes = squarify(weights, into);
  expect(boxes).toHaveLength(weights.length);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  for (const [at, box] of boxes.entries()) {
    expect(area(box)).toBeCloseTo((area(into) * weights[at]) / total, 3);
    expect(box.x).toBeGreaterThanOrEqual(into.x - 1e-6);
    expect(box.y).toBeGreaterThanOrEqual(into.y - 1e-6);
    expect(box.x + box.width).toBeLessThanOrEqual(into.x + into.width + 1e-6);
    expect(box.y + box.height).toBeLessThanOrEqual(into.y + into.height + 1e-6);
  }
  for (const [at, a] of boxes.entries()) {
    for (const b of boxes.slice(at + 1)) {
      const across = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
      const down = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
      expect(Math.min(across, down)).toBeLessThan(1e-6);
    }
  }
  return boxes;
}

describe("a treemap", () => {
  test("fills its box, to scale, without overlaps", () => {
    expectTiling([6, 6, 4, 3, 2, 2, 1], INTO);
    expectTiling([1], INTO);
    expectTiling([1e12, 1e9, 1e6, 1e3, 1], INTO);
    const many = Array.from({ length: 120 }, (_, at) => 1 + ((at * 7919) % 97)).sort((a, b) => b - a);
    expectTiling(many, INTO);
    expectTiling(many, { ...INTO, width: 100 });
  });

  test("of equal weights is nearly square", () => {
    for (const box of expectTiling(new Array(24).fill(5), INTO)) expect(thinness(box)).toBeLessThan(2);
  });

  test("matches the paper's example: 6, 6, 4, 3, 2, 2, 1 in 6 by 4", () => {
    const boxes = squarify([6, 6, 4, 3, 2, 2, 1], { x: 0, y: 0, width: 6, height: 4 });
    expect(boxes[0]).toEqual({ x: 0, y: 0, width: 3, height: 2 });
    expect(boxes[1]).toEqual({ x: 0, y: 2, width: 3, height: 2 });
    expect(Math.max(...boxes.map(thinness))).toBeLessThan(3);
  });

  test("without weights or space is empty", () => {
    expect(squarify([], INTO)).toEqual([]);
    expect(squarify([0, 0], INTO)).toEqual([]);
    expect(squarify([1], { ...INTO, width: 0 })).toEqual([]);
    expect(squarify([Number.NaN], INTO)).toEqual([]);
  });
});
