// The headroom of a core's L1 over time, as curves: one for steps whose headroom is known, one for upper bounds.

import { Flag, type L1 } from "../data/l1";
import { Curve } from "../data/report";

export interface HeadroomCurves {
  known: Curve;
  /** The steps whose actual headroom may be smaller; `null` if there are none. */
  atMost: Curve | null;
  /** The highest value is the lowest headroom, for charts that snap to the highest value. */
  inverted: Curve;
  /** The steps whose program's buffers overlap with tensors, in order. */
  overlaps: Uint32Array;
}

const cache = new WeakMap<L1, HeadroomCurves>();

/** The curves, computed on first use. */
export function headroomCurves(l1: L1): HeadroomCurves {
  let curves = cache.get(l1);
  if (!curves) {
    curves = curvesOf(l1.steps.headroom, l1.steps.flags);
    cache.set(l1, curves);
  }
  return curves;
}

export function curvesOf(headroom: Float64Array, flags: Uint32Array): HeadroomCurves {
  const isBound = (step: number) => (flags[step] & Flag.AtMost) !== 0;
  const atMost = curve(headroom, (bytes, step) => (isBound(step) ? bytes : Number.NaN));
  return {
    known: curve(headroom, (bytes, step) => (isBound(step) ? Number.NaN : bytes)),
    atMost: atMost.value.some((bytes) => !Number.isNaN(bytes)) ? atMost : null,
    inverted: curve(headroom, (bytes) => -bytes),
    overlaps: Uint32Array.from(headroom.keys()).filter((step) => headroom[step] < 0),
  };
}

/**
 * The curves for a window, known and upper bounds. If a pixel covers several steps, it has their lowest headroom:
 * higher values don't matter. It is an upper bound if the headroom of one of the steps is.
 */
export function lowestCurves(
  { known, atMost }: HeadroomCurves,
  { headroom, flags }: Pick<L1["steps"], "headroom" | "flags">,
  { from, to, width }: { from: number; to: number; width: number },
): [known: Curve, atMost: Curve | null] {
  // With one change per pixel, the chart draws the curves as they are.
  const pixels = Math.max(1, Math.floor(width) - 1);
  if (to - from <= pixels) return [known, atMost];
  const perPixel = (to - from) / pixels;
  const stepAt = (pixel: number) =>
    Math.min(headroom.length, Math.max(0, Math.ceil(from + pixel * perPixel)));
  const at = new Uint32Array(pixels + 1);
  const values = [new Float64Array(pixels + 1), new Float64Array(pixels + 1)];
  for (let pixel = 0; pixel <= pixels; pixel++) {
    const end = stepAt(pixel + 1);
    let [lowest, isBound] = [Number.NaN, false];
    at[pixel] = 2 * stepAt(pixel);
    for (let step = stepAt(pixel); step < end; step++) {
      if (Number.isNaN(lowest) || headroom[step] < lowest) lowest = headroom[step];
      isBound ||= (flags[step] & Flag.AtMost) !== 0;
    }
    values[0][pixel] = isBound ? Number.NaN : lowest;
    values[1][pixel] = isBound ? lowest : Number.NaN;
  }
  return [new Curve(at, values[0]), atMost && new Curve(at, values[1])];
}

/**
 * A curve with a value for each step. The value of step i begins half a step before x = i, so that the pin and the cursor,
 * which are at whole numbers, are in its middle.
 */
function curve(headroom: Float64Array, of: (bytes: number, step: number) => number): Curve {
  const [at, value]: [number[], number[]] = [[], []];
  for (let step = 0; step <= headroom.length; step++) {
    const bytes = step < headroom.length ? of(headroom[step], step) : Number.NaN;
    if (value.length > 0 && Object.is(value[value.length - 1], bytes)) continue;
    at.push(2 * step);
    value.push(bytes);
  }
  return new Curve(Uint32Array.from(at), Float64Array.from(value));
}
