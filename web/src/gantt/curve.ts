// A curve in time for a chart: what holds where a pixel begins, the lowest and the highest in it. No peak is lost.

import type { TimeCurve } from "./data";
import type { View } from "./visible";

/** The row of the change that holds at a time; -1 before the first. */
export function rowAt(at: Float64Array, time: number): number {
  let [low, high] = [0, at.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (at[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** What a curve holds at a time; NaN before its first change. */
export function valueAt(curve: TimeCurve, time: number): number {
  const row = rowAt(curve.at, time);
  return row < 0 ? Number.NaN : curve.value[row];
}

/** For each pixel the lowest and the highest value, and what holds at its end; NaN where nothing is known. */
export interface Pixels {
  low: Float64Array;
  high: Float64Array;
  last: Float64Array;
}

/** The curve in a view, pixel by pixel. */
export function pixelsOf(curve: TimeCurve, { from, to, width }: View): Pixels {
  const pixels = Math.max(1, Math.ceil(width));
  const low = new Float64Array(pixels).fill(Number.NaN);
  const high = new Float64Array(pixels).fill(Number.NaN);
  const last = new Float64Array(pixels).fill(Number.NaN);
  let row = rowAt(curve.at, from);
  let now = row < 0 ? Number.NaN : curve.value[row];
  row += 1;
  const perPixel = (to - from) / width;
  for (let pixel = 0; pixel < pixels; pixel++) {
    const end = from + (pixel + 1) * perPixel;
    let [least, most] = [now, now];
    for (; row < curve.at.length && curve.at[row] < end; row++) {
      now = curve.value[row];
      if (!(least <= now)) least = now;
      if (!(most >= now)) most = now;
    }
    low[pixel] = least;
    high[pixel] = most;
    last[pixel] = now;
  }
  return { low, high, last };
}

/** The highest value of a curve between two times; NaN where nothing is known. */
export function highestIn(pixels: Pixels): number {
  let best = Number.NaN;
  for (const value of pixels.high) if (!(best >= value) && !Number.isNaN(value)) best = value;
  return best;
}
