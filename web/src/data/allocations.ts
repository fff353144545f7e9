// Groups of allocations: their names, and those that are not listed.

import type { GroupBy, PageAllocations, PageGroup, PageGrouping, Sum } from "../generated/answers";
import { className } from "./summary";

/** The grouping that is shown; the first one if the input does not have the requested one. */
export function groupingOf({ groupings }: PageAllocations, by: GroupBy): PageGrouping | undefined {
  return groupings.find((grouping) => grouping.by === by) ?? groupings[0];
}

export function groupName({ name, key }: PageGroup, by: GroupBy): string {
  return by === "class" && key !== null ? className(key) : name;
}

/** The allocations that are not in a list of groups. */
export function restOf(all: Sum, listed: readonly Sum[]): Sum {
  const rest = { ...all };
  for (const { count, bytes } of listed) {
    rest.count -= count;
    rest.bytes -= bytes;
  }
  return rest;
}

/** Whether the table of all allocations differs from that of the live ones. */
export function hasFreed({ live, total }: { live: Sum; total: Sum }): boolean {
  return live.count !== total.count || live.bytes !== total.bytes;
}
