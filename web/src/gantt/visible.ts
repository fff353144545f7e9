// Which bars a row shows at a zoom: those that can be seen, each once, and one for all that share a pixel.
//
// The work is bounded by the width of the chart, not by the number of calls: what ends in the same pixel as the one
// before is passed over by searching, not one by one.

import type { GanttData } from "./data";

/** A stretch of time and the pixels that it is drawn on. */
export interface View {
  from: number;
  to: number;
  width: number;
}

/** Takes a bar: pixels from and to, the call to colour it by, and how many calls it stands for. */
export type Bar = (left: number, right: number, call: number, calls: number) => void;

/** When a call is over, in the order of its row: a mark is over when it begins. */
const overAt = (data: GanttData, call: number): number =>
  Number.isNaN(data.until[call]) ? data.began[call] : data.until[call];

/** The place in a row of the first call that is over at or after a time. */
export function firstOver(data: GanttData, low: number, end: number, time: number): number {
  let [first, high] = [low, end];
  while (first < high) {
    const middle = (first + high) >>> 1;
    if (overAt(data, data.byRow[middle]) < time) first = middle + 1;
    else high = middle;
  }
  return first;
}

/** Calls `bar` for what a row shows. */
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
    // Narrower than a pixel: it stands for all that are over within its pixel.
    const pixel = Math.floor(left);
    const next = Math.max(at + 1, firstOver(data, at + 1, end, from + (pixel + 1) / scale));
    bar(pixel, pixel + 1, longestOf(data, at, next), next - at);
    at = next;
  }
}

/** More calls than this in a pixel are not compared: one is as good as another then. */
const COMPARED = 16;

function longestOf(data: GanttData, first: number, end: number): number {
  let best = data.byRow[first];
  for (let at = first + 1; at < Math.min(end, first + COMPARED); at++) {
    const call = data.byRow[at];
    if (overAt(data, call) - data.began[call] > overAt(data, best) - data.began[best]) best = call;
  }
  return best;
}

/** The call at a place of a row, and how many share its pixel; `null` where there is none within `reach` pixels. */
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
