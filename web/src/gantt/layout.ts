// Where rows and lanes lie, in CSS pixels.

import type { GanttData } from "./data";

/** The height of a row, and of the bar in it. */
export const ROW = 19;
export const BAR = 17;
/** Between two lanes. */
const LANE_GAP = 9;
/** Above the first lane and beneath the last. */
const EDGE = 5;
export const MEMORY_HEIGHT = 150;
/** Beneath the memory: the time axis. */
export const TIME_AXIS = 26;
/** From the plot to the right edge: half of a long label. */
export const RIGHT = 14;

/** From the left edge to the plot: names of lanes and labels of the memory axis. */
export const gutterOf = (width: number): number => (width < 760 ? 84 : 132);

export class Layout {
  readonly height: number;
  /** Where each lane begins. */
  readonly laneTop: number[] = [];
  private readonly laneOfRow: Uint32Array;

  constructor(private readonly data: GanttData) {
    this.laneOfRow = new Uint32Array(data.rowCount);
    let top = EDGE;
    data.lanes.forEach(({ first, rows }, lane) => {
      this.laneTop.push(top);
      this.laneOfRow.fill(lane, first, first + rows);
      // A thread that did nothing has no rows, and no room.
      if (rows > 0) top += rows * ROW + LANE_GAP;
    });
    this.height = top - LANE_GAP + EDGE;
  }

  topOf(row: number): number {
    const lane = this.laneOfRow[row];
    return this.laneTop[lane] + (row - this.data.lanes[lane].first) * ROW;
  }

  /** The row at a height; -1 between lanes. */
  rowAt(top: number): number {
    const row = this.firstRowFrom(top);
    return row < this.data.rowCount && this.topOf(row) <= top ? row : -1;
  }

  /** The first row that reaches below a height. */
  firstRowFrom(top: number): number {
    let [low, high] = [0, this.data.rowCount];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.topOf(middle) + ROW <= top) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
