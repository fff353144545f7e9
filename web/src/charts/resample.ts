// Converts curves to arrays for a chart: exact steps if few changes are visible, otherwise the first, lowest, highest and
// last value of every pixel, so that no peak is lost.
//
// On the x axis of a chart a position is a whole number: its late side is x = i, its early side x = i − 0.5. Moment 0
// is drawn at 0 too.

import type { Curve } from "../data/report";

/** The x coordinate of a moment. */
export const xOf = (moment: number): number => (moment < 1 ? 0 : (moment - 1) / 2);
/** The first moment drawn at x or right of it. */
export const firstMomentFrom = (x: number): number => (x <= 0 ? 0 : Math.ceil(2 * x + 1));
/** The last moment drawn at x or left of it. */
export const lastMomentUpTo = (x: number): number => Math.max(1, Math.floor(2 * x + 1));

/** Values of several curves at the same x coordinates; `null` if unknown. */
export interface Samples {
  x: number[];
  values: (number | null)[][];
}

/** The first row whose moment is `moment` or later. */
export function rowFrom(at: Uint32Array, moment: number, low = 0): number {
  let high = at.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (at[middle] < moment) low = middle + 1;
    else high = middle;
  }
  return low;
}

const BLOCK = 128;

/** The minimum and maximum of each block of changes, so that long ranges need not be scanned change by change. */
class Blocks {
  private readonly low: Float64Array;
  private readonly high: Float64Array;

  constructor(private readonly value: Float64Array) {
    const blocks = Math.floor(value.length / BLOCK);
    this.low = new Float64Array(blocks).fill(Number.POSITIVE_INFINITY);
    this.high = new Float64Array(blocks).fill(Number.NEGATIVE_INFINITY);
    for (let row = 0; row < blocks * BLOCK; row++) {
      const block = Math.floor(row / BLOCK);
      // Comparisons with NaN are false, so unknown values are skipped.
      if (value[row] < this.low[block]) this.low[block] = value[row];
      if (value[row] > this.high[block]) this.high[block] = value[row];
    }
  }

  /** The lowest and highest known value of the rows; infinities if none is known. */
  extremes(first: number, end: number): [low: number, high: number] {
    let low = Number.POSITIVE_INFINITY;
    let high = Number.NEGATIVE_INFINITY;
    let row = first;
    while (row < end) {
      if (row % BLOCK === 0 && row + BLOCK <= end) {
        const block = row / BLOCK;
        if (this.low[block] < low) low = this.low[block];
        if (this.high[block] > high) high = this.high[block];
        row += BLOCK;
      } else {
        if (this.value[row] < low) low = this.value[row];
        if (this.value[row] > high) high = this.value[row];
        row += 1;
      }
    }
    return [low, high];
  }
}

const blocks = new WeakMap<Curve, Blocks>();

function blocksOf(curve: Curve): Blocks {
  let found = blocks.get(curve);
  if (!found) {
    found = new Blocks(curve.value);
    blocks.set(curve, found);
  }
  return found;
}

/** The lowest and highest known value of a curve; `null` if none is known. */
export function extremesOf(curve: Curve): [low: number, high: number] | null {
  const [low, high] = blocksOf(curve).extremes(0, curve.at.length);
  return low <= high ? [low, high] : null;
}

/** Samples the curves between two x coordinates for a width in pixels. */
export function resample(curves: readonly Curve[], from: number, to: number, width: number): Samples {
  const pixels = Math.max(1, Math.floor(width));
  const [start, end] = [firstMomentFrom(from), lastMomentUpTo(to) + 1];
  const spans = curves.map((curve) => {
    const first = rowFrom(curve.at, start);
    return { curve, first, end: rowFrom(curve.at, end, first) };
  });
  const changes = spans.reduce((sum, span) => sum + span.end - span.first, 0);
  return changes <= 2 * pixels ? exactSteps(spans, from, to) : buckets(spans, from, to, pixels);
}

interface Span {
  curve: Curve;
  first: number;
  end: number;
}

const known = (value: number | undefined): number | null =>
  value === undefined || Number.isNaN(value) ? null : value;

/** The value of a curve right before one of its changes. */
const before = (curve: Curve, row: number): number | null => (row > 0 ? known(curve.value[row - 1]) : null);

/** Every change, exactly: a point before it and one for each change at that moment. */
function exactSteps(spans: readonly Span[], from: number, to: number): Samples {
  const samples: Samples = { x: [], values: spans.map(() => []) };
  const now = spans.map(({ curve, first }) => before(curve, first));
  const next = spans.map(({ first }) => first);
  const put = (x: number) => {
    samples.x.push(x);
    for (let curve = 0; curve < now.length; curve++) samples.values[curve].push(now[curve]);
  };
  const hasChangeAt = (moment: number) =>
    spans.some(({ curve, end }, index) => next[index] < end && curve.at[next[index]] === moment);
  for (;;) {
    let moment = Number.POSITIVE_INFINITY;
    spans.forEach(({ curve, end }, index) => {
      if (next[index] < end) moment = Math.min(moment, curve.at[next[index]]);
    });
    const x = moment === Number.POSITIVE_INFINITY ? to : Math.max(from, xOf(moment));
    if (samples.x.length === 0 && x > from) put(from);
    if (x > from) put(x);
    if (moment === Number.POSITIVE_INFINITY) return samples;
    while (hasChangeAt(moment)) {
      spans.forEach(({ curve, end }, index) => {
        if (next[index] >= end || curve.at[next[index]] !== moment) return;
        now[index] = known(curve.value[next[index]]);
        next[index] += 1;
      });
      put(x);
    }
  }
}

/** Four points for each pixel: its first, lowest, highest and last value. */
function buckets(spans: readonly Span[], from: number, to: number, pixels: number): Samples {
  const samples: Samples = { x: [], values: spans.map(() => []) };
  const step = (to - from) / pixels;
  for (let pixel = 0; pixel < pixels; pixel++) {
    for (let part = 0; part < 4; part++) samples.x.push(from + (pixel + part / 4) * step);
  }
  samples.x.push(to);
  spans.forEach((span, index) => {
    bucketsOf(span, from, step, pixels, samples.values[index]);
  });
  return samples;
}

function bucketsOf(span: Span, from: number, step: number, pixels: number, out: (number | null)[]): void {
  const { curve } = span;
  const index = blocksOf(curve);
  let row = span.first;
  // A change exactly at the start of the range replaces the value before it.
  const starts = row < span.end && xOf(curve.at[row]) <= from;
  let now = starts ? known(curve.value[row]) : before(curve, row);
  for (let pixel = 0; pixel < pixels; pixel++) {
    const end =
      pixel + 1 === pixels
        ? span.end
        : Math.min(span.end, rowFrom(curve.at, firstMomentFrom(from + (pixel + 1) * step), row));
    if (end === row) {
      out.push(now, now, now, now);
      continue;
    }
    let [low, high] = index.extremes(row, end);
    if (now !== null) [low, high] = [Math.min(low, now), Math.max(high, now)];
    const last = known(curve.value[end - 1]);
    out.push(now, low <= high ? low : null, low <= high ? high : null, last);
    now = last;
    row = end;
  }
  out.push(now);
}

/** The highest known value of samples; `null` if none is known. */
export function highest(values: readonly (number | null)[]): number | null {
  let best: number | null = null;
  for (const value of values) if (value !== null && (best === null || value > best)) best = value;
  return best;
}

/** The lowest known value of samples; `null` if none is known. */
export function lowest(values: readonly (number | null)[]): number | null {
  let best: number | null = null;
  for (const value of values) if (value !== null && (best === null || value < best)) best = value;
  return best;
}

/**
 * The moment in `from..to` (`to` excluded) with the highest value. Only the last value of each moment counts. If there is
 * no moment in the range, returns the preceding one.
 */
export function highestMoment(curve: Curve, from: number, to: number): number {
  const [start, end] = [firstMomentFrom(from), firstMomentFrom(to)];
  if (end <= start) return from <= 0 ? 0 : lastMomentUpTo(from);
  const { at, value } = curve;
  let row = rowFrom(at, start);
  let best = start;
  let highest = row < at.length && at[row] === start ? Number.NaN : row > 0 ? value[row - 1] : Number.NaN;
  for (; row < at.length && at[row] < end; row++) {
    const isLast = row + 1 === at.length || at[row + 1] !== at[row];
    if (isLast && (value[row] > highest || (Number.isNaN(highest) && !Number.isNaN(value[row])))) {
      best = at[row];
      highest = value[row];
    }
  }
  return best;
}

/** A click snaps to the highest value of a curve; values that differ by at most `tolerance` are equal. */
export interface Snap {
  curve: Curve;
  tolerance: number;
}

/**
 * The moment for a pointer position: the one before the nearest step or, if one pixel covers many steps, the highest one
 * drawn there.
 */
export function momentAt(snap: Snap | null, x: number, perPixel: number, end: number): number {
  if (!snap || perPixel <= 1) return Math.min(Math.max(0, Math.round(x)), end) * 2 + 1;
  const { curve, tolerance } = snap;
  const found = highestMoment(curve, Math.max(0, x - perPixel / 2), Math.min(end + 0.5, x + perPixel / 2));
  // Both sides of a position usually have the same value; the rest of the report refers to the late side.
  const isSameLater = curve.valueAt(found + 1) >= curve.valueAt(found) - tolerance;
  return Math.min(found % 2 === 0 && isSameLater ? found + 1 : found, end * 2 + 1);
}
