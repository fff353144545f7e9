// Samples a curve for a chart: the lowest, highest and last value of each pixel, so that no peak is lost.

import type { TimeCurve } from "./data";
import type { View } from "./visible";

/** The row of the last change at or before a time; -1 before the first. */
export function rowAt(at: Float64Array, time: number): number {
  let [low, high] = [0, at.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (at[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The value of a curve at a time; NaN before its first change. */
export function valueAt(curve: TimeCurve, time: number): number {
  const row = rowAt(curve.at, time);
  return row < 0 ? Number.NaN : curve.value[row];
}

/** The number of changes per block. */
const BLOCK = 64;

/** The minimum and maximum of each block of changes, so that long ranges need not be scanned change by change. */
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

/** The lowest, highest and last value of each pixel; NaN if unknown. */
export interface Pixels {
  low: Float64Array;
  high: Float64Array;
  last: Float64Array;
}

/** Samples a curve for each pixel of a view. */
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
    let [min, max] = [now, now];
    const take = (lowest: number, highest: number) => {
      // Comparisons with NaN are false, so known values replace unknown ones.
      if (!(min <= lowest)) min = lowest;
      if (!(max >= highest)) max = highest;
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
    low[pixel] = min;
    high[pixel] = max;
    last[pixel] = now;
  }
  return { low, high, last };
}

/** The highest value of all pixels; NaN if none is known. */
export function highestIn(pixels: Pixels): number {
  let best = Number.NaN;
  for (const value of pixels.high) if (!(best >= value) && !Number.isNaN(value)) best = value;
  return best;
}

/** The highest value of a curve. */
export function peakOf({ value }: TimeCurve): number {
  return value.reduce((max, bytes) => Math.max(max, bytes), 0);
}

/** The initial curve: the pool with tensors and the highest peak. The process's total is larger, but unattributed. */
export function curveToShow(curves: readonly TimeCurve[]): number {
  const withTensors = curves.filter(({ hasTensors }) => hasTensors);
  const choice = withTensors.length > 0 ? withTensors : curves;
  const highest = choice.reduce((best, curve) => (peakOf(curve) > peakOf(best) ? curve : best), choice[0]);
  return curves.indexOf(highest);
}

/**
 * The order of the curves in the selector, by number, and the initial curve. `pools` are the pools' names by importance;
 * without them, the initial curve comes first.
 */
export function curveChoices(
  curves: readonly TimeCurve[],
  pools: readonly string[] | null,
): { order: number[]; first: number } {
  const all = [...curves.keys()];
  if (pools === null) {
    const first = curveToShow(curves);
    return { order: [first, ...all.filter((curve) => curve !== first)], first };
  }
  const placeOf = (curve: number) => pools.indexOf(curves[curve].name) + 1 || pools.length + 1;
  const order = all.toSorted((a, b) => placeOf(a) - placeOf(b));
  return { order, first: order.find((curve) => curves[curve].hasTensors) ?? order[0] };
}
