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

/** So many changes are looked at together where many share a pixel. */
const BLOCK = 64;

/** The lowest and the highest value of every block of changes, so that long stretches are not walked change by change. */
interface Blocks {
  low: Float64Array;
  high: Float64Array;
}

const known = new WeakMap<TimeCurve, Blocks>();

function blocksOf(curve: TimeCurve): Blocks {
  let blocks = known.get(curve);
  if (!blocks) {
    const count = Math.ceil(curve.value.length / BLOCK);
    blocks = {
      low: new Float64Array(count).fill(Number.POSITIVE_INFINITY),
      high: new Float64Array(count).fill(Number.NEGATIVE_INFINITY),
    };
    for (let row = 0; row < curve.value.length; row++) {
      const block = Math.floor(row / BLOCK);
      if (curve.value[row] < blocks.low[block]) blocks.low[block] = curve.value[row];
      if (curve.value[row] > blocks.high[block]) blocks.high[block] = curve.value[row];
    }
    known.set(curve, blocks);
  }
  return blocks;
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
  const blocks = blocksOf(curve);
  let row = rowAt(curve.at, from) + 1;
  let now = row === 0 ? Number.NaN : curve.value[row - 1];
  const perPixel = (to - from) / width;
  for (let pixel = 0; pixel < pixels; pixel++) {
    const end = from + (pixel + 1) * perPixel;
    let [least, most] = [now, now];
    const take = (lowest: number, highest: number) => {
      // Comparisons with NaN are false: what is not known yet gives way.
      if (!(least <= lowest)) least = lowest;
      if (!(most >= highest)) most = highest;
    };
    while (row < curve.at.length && curve.at[row] < end) {
      const next = row + BLOCK;
      if (row % BLOCK === 0 && next <= curve.at.length && curve.at[next - 1] < end) {
        take(blocks.low[row / BLOCK], blocks.high[row / BLOCK]);
        row = next;
      } else {
        take(curve.value[row], curve.value[row]);
        row += 1;
      }
    }
    if (row > 0) now = curve.value[row - 1];
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

/** The most that a curve ever holds. */
export function peakOf({ value }: TimeCurve): number {
  return value.reduce((most, bytes) => Math.max(most, bytes), 0);
}

/** The curve to look at first: the fullest pool with tensors. What a process has in all is more, and nobody's. */
export function curveToShow(curves: readonly TimeCurve[]): number {
  const withTensors = curves.filter(({ hasTensors }) => hasTensors);
  const choice = withTensors.length > 0 ? withTensors : curves;
  const highest = choice.reduce((best, curve) => (peakOf(curve) > peakOf(best) ? curve : best), choice[0]);
  return curves.indexOf(highest);
}
