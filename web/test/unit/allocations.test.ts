import { expect, test } from "vitest";
import { groupingOf, groupName, hasFreed, restOf } from "../../src/data/allocations";
import type { PageAllocations, PageGroup, PageGrouping } from "../../src/generated/answers";

const sum = (count: number, bytes: number) => ({ count, bytes });

test("a rank without the chosen grouping shows its first one", () => {
  const grouping = (by: PageGrouping["by"]) => ({ by }) as PageGrouping;
  const both: PageAllocations = { groupings: [grouping("line"), grouping("size")], reserved: [] };
  expect(groupingOf(both, "size")?.by).toBe("size");
  const one: PageAllocations = { groupings: [grouping("class")], reserved: [] };
  expect(groupingOf(one, "line")?.by).toBe("class");
  expect(groupingOf({ groupings: [], reserved: [] }, "line")).toBeUndefined();
});

test("classes are named in the plural, other groups as on the screen", () => {
  const group = (name: string, key: string | null) => ({ name, key }) as PageGroup;
  expect(groupName(group("activation", "activation"), "class")).toBe("activations");
  expect(groupName(group("no Python stack", null), "line")).toBe("no Python stack");
  expect(groupName(group("activation", "activation"), "op")).toBe("activation");
});

test("the allocations that no listed group has", () => {
  expect(restOf(sum(10, 1000), [sum(6, 700), sum(3, 200)])).toEqual(sum(1, 100));
  expect(restOf(sum(0, 0), [])).toEqual(sum(0, 0));
});

test("the allocations over time are only listed if some were freed", () => {
  expect(hasFreed({ live: sum(3, 10), total: sum(3, 10) })).toBe(false);
  expect(hasFreed({ live: sum(3, 10), total: sum(4, 10) })).toBe(true);
});
