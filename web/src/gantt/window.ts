// The visible time range of the chart: moving, zooming and clamping it.

/** The smallest visible range, in nanoseconds. */
const MIN_NS = 20;

export interface Window {
  from: number;
  to: number;
}

/** Clamps a range to `0..length` and to the minimum width. */
export function within(length: number, from: number, to: number): Window {
  const width = Math.min(length, Math.max(Math.min(MIN_NS, length), to - from));
  const middle = (from + to) / 2;
  const start = Math.min(Math.max(0, middle - width / 2), length - width);
  return { from: start, to: start + width };
}

/** An idle start that takes a larger share of the time than this is not shown initially. */
const MAX_IDLE_START = 0.1;
/** The share of the initial range before the first call. */
const START_MARGIN = 0.02;

/** The initial range: everything, but not the time before the first call if that is long, such as imports. */
export function initialWindow(length: number, firstCall: number): Window {
  if (!(firstCall > length * MAX_IDLE_START)) return { from: 0, to: length };
  const from = firstCall - (length - firstCall) * START_MARGIN;
  return { from: Math.max(0, Math.min(from, length - MIN_NS)), to: length };
}

/** A range `factor` times as wide; the time `around` does not move. */
export function zoomed(length: number, { from, to }: Window, factor: number, around: number): Window {
  const width = Math.min(length, Math.max(MIN_NS, (to - from) * factor));
  const start = around - ((around - from) / (to - from)) * width;
  return within(length, start, start + width);
}

/** A range that includes some context around `from..to`. */
export function around(length: number, from: number, to: number): Window {
  const room = Math.max((to - from) * 1.5, MIN_NS * 5, length / 1e7);
  return within(length, from - room, to + room);
}
