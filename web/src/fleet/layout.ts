// The positions of rows in the heat map, in CSS pixels. Rows of a run are adjacent, with a gap between two runs.

import type { Group } from "./data";

/** The height of the visible part of the map, at most. */
export const MAX_HEIGHT = 560;
/** The height of a row with its name. */
export const NAMED = 18;
/** The height of a row without its name. */
export const THIN = 4;
/** The space between two runs, at most. */
const GAP = 6;
const TOUCHING = 1e-6;

export type Rows = "all" | "thin" | "named";

export class HeatLayout {
  /** The height of a row; below 1 if several rows share a pixel. */
  readonly row: number;
  readonly height: number;
  private readonly gap: number;
  private readonly tops: Float64Array;
  private readonly count: number;

  /** With `rows` = `all`, the map is as high as its visible part. */
  constructor(
    readonly groups: readonly Group[],
    rows: Rows,
    maxHeight = MAX_HEIGHT,
  ) {
    this.count = groups.reduce((sum, { count }) => sum + count, 0);
    const gaps = Math.max(0, groups.length - 1);
    const fitting = rows === "all" ? maxHeight : Number.POSITIVE_INFINITY;
    // At most a quarter of the map is gaps. Many runs of one rank each need none.
    this.gap = groups.length < this.count ? Math.min(GAP, gaps === 0 ? GAP : fitting / 4 / gaps) : 0;
    const room = maxHeight - gaps * this.gap;
    const heights = { all: Math.min(NAMED, room / Math.max(1, this.count)), thin: THIN, named: NAMED };
    this.row = heights[rows];
    this.tops = new Float64Array(groups.length);
    let top = 0;
    groups.forEach(({ count }, group) => {
      this.tops[group] = top;
      top += count * this.row + this.gap;
    });
    this.height = Math.max(0, top - this.gap);
  }

  /** The top of a run. */
  groupTop(group: number): number {
    return this.tops[group];
  }

  groupHeight(group: number): number {
    return this.groups[group].count * this.row;
  }

  /** The run of a row. */
  groupOf(row: number): number {
    return lastNotAbove(this.groups.length, (group) => this.groups[group].first, row);
  }

  topOf(row: number): number {
    const group = this.groupOf(row);
    return this.tops[group] + (row - this.groups[group].first) * this.row;
  }

  /** The rows between two y coordinates, from `first` to before `end`; none in a gap. */
  rowsIn(from: number, to: number): { first: number; end: number } {
    // Rounding errors must not add rows that only touch the range.
    const first = lastNotAbove(this.count, (row) => this.topOf(row) + this.row, from + TOUCHING) + 1;
    const end = lastNotAbove(this.count, (row) => this.topOf(row), to - TOUCHING) + 1;
    return { first, end: Math.max(first, end) };
  }
}

/** The last index whose value, `at` it, is not above a limit; -1 if all are. The values ascend. */
function lastNotAbove(count: number, at: (index: number) => number, limit: number): number {
  let [low, high] = [0, count];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (at(middle) <= limit) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The rows that the map shows at first: with names if they fit. */
export function initialRows(groups: readonly Group[]): Rows {
  const named = new HeatLayout(groups, "named");
  return named.height <= MAX_HEIGHT ? "named" : "all";
}
