// The visible bars of a row at a zoom level: one per call, or one for all calls that share a pixel.
//
// The work is bounded by the width of the chart, not by the number of calls: calls that end in the same pixel are skipped
// with a binary search.

import type { GanttData } from "./data";

/** A time range and its width in pixels. */
export interface View {
  from: number;
  to: number;
  width: number;
}

/** Receives a bar: its left and right edge in pixels, the call that determines its color, and its number of calls. */
export type Bar = (left: number, right: number, call: number, calls: number) => void;

/** The end of a call; a mark ends when it begins. */
const overAt = (data: GanttData, call: number): number =>
  Number.isNaN(data.until[call]) ? data.began[call] : data.until[call];

/** The index of the first call of a row that ends at or after a time. */
export function firstOver(data: GanttData, low: number, end: number, time: number): number {
  let [first, high] = [low, end];
  while (first < high) {
    const middle = (first + high) >>> 1;
    if (overAt(data, data.byRow[middle]) < time) first = middle + 1;
    else high = middle;
  }
  return first;
}

/** Calls `bar` for each visible bar of a row. */
export function eachBar(data: GanttData, row: number, { from, to, width }: View, bar: Bar): void {
  const [start, end] = [data.rowStart[row], data.rowStart[row + 1]];
  const scale = width / (to - from);
  let at = firstOver(data, start, end, from);
  while (at < end) {
    const call = data.byRow[at];
    const began = data.began[call];
    if (began > to) return;
    const left = (began - from) * scale;
    const right = (overAt(data, call) - from) * scale;
    if (right - left >= 1) {
      bar(Math.max(-1, left), Math.min(width + 1, right), call, 1);
      at++;
      continue;
    }
    // Narrower than a pixel: one bar for all calls that end within the pixel.
    const pixel = Math.floor(left);
    const next = Math.max(at + 1, firstOver(data, at + 1, end, from + (pixel + 1) / scale));
    bar(pixel, pixel + 1, longestOf(data, at, next), next - at);
    at = next;
  }
}

/** The number of calls in a pixel that are compared to find the longest. */
const MAX_COMPARED = 16;

function longestOf(data: GanttData, first: number, end: number): number {
  let best = data.byRow[first];
  for (let at = first + 1; at < Math.min(end, first + MAX_COMPARED); at++) {
    const call = data.byRow[at];
    if (overAt(data, call) - data.began[call] > overAt(data, best) - data.began[best]) best = call;
  }
  return best;
}

/** The call at an x coordinate of a row, and how many share its pixel; `null` if there is none within `reach` pixels. */
export function callAt(
  data: GanttData,
  row: number,
  view: View,
  left: number,
  reach = 3,
): { call: number; calls: number } | null {
  const perPixel = (view.to - view.from) / view.width;
  let best: { call: number; calls: number } | null = null;
  let nearest = reach;
  const near = {
    ...view,
    from: view.from + (left - reach) * perPixel,
    to: view.from + (left + reach) * perPixel,
  };
  eachBar(data, row, { ...near, width: reach * 2 }, (start, end, call, calls) => {
    const distance = start > reach ? start - reach : end < reach ? reach - end : 0;
    if (distance < nearest || (best === null && distance <= reach)) {
      nearest = distance;
      best = { call, calls };
    }
  });
  return best;
}
