import { expect, test } from "vitest";
import { hasRoom } from "../../src/data/summary";
import type { PoolSummary } from "../../src/generated/answers";

test("a pool without capacity and use is not shown", () => {
  const pool = (capacity: number | null, peak: number | null) =>
    ({ capacity_per_bank: capacity, peak_per_bank: peak }) as PoolSummary;
  expect(hasRoom(pool(0, 0))).toBe(false);
  expect(hasRoom(pool(0, null))).toBe(false);
  expect(hasRoom(pool(0, 5))).toBe(true);
  expect(hasRoom(pool(null, 0))).toBe(true);
  expect(hasRoom(pool(1024, 0))).toBe(true);
});
