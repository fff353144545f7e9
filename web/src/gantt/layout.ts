// The positions of rows and lanes, in CSS pixels.

import type { GanttData } from "./data";

/** The height of a row, and of the bar in it. */
export const ROW = 19;
export const BAR = 17;
/** The space between two lanes. */
const LANE_GAP = 9;
/** The space above the first lane and below the last. */
const EDGE = 5;
export const MEMORY_HEIGHT = 150;
/** The height of the time axis, below the memory curve. */
export const TIME_AXIS = 26;
/** The space right of the plot: half of a long label. */
export const RIGHT = 14;

/** The space left of the plot, for lane names and the memory axis labels. */
export const gutterOf = (width: number): number => (width < 760 ? 84 : 132);

export class Layout {
  readonly height: number;
  /** The top of each lane. */
  readonly laneTop: number[] = [];
  private readonly laneOfRow: Uint32Array;

  constructor(private readonly data: GanttData) {
    this.laneOfRow = new Uint32Array(data.rowCount);
    let top = EDGE;
    data.lanes.forEach(({ first, rows }, lane) => {
      this.laneTop.push(top);
      this.laneOfRow.fill(lane, first, first + rows);
      // A thread without calls has no rows and takes no space.
      if (rows > 0) top += rows * ROW + LANE_GAP;
    });
    this.height = top - LANE_GAP + EDGE;
  }

  topOf(row: number): number {
    const lane = this.laneOfRow[row];
    return this.laneTop[lane] + (row - this.data.lanes[lane].first) * ROW;
  }

  /** The row at a y coordinate; -1 between lanes. */
  rowAt(top: number): number {
    const row = this.firstRowFrom(top);
    return row < this.data.rowCount && this.topOf(row) <= top ? row : -1;
  }

  /** The first row that ends below a y coordinate. */
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
