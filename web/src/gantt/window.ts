// The stretch of time that the chart shows: moving and zooming it, within what there is.

/** No chart shows less than so many nanoseconds. */
const LEAST = 20;

export interface Window {
  from: number;
  to: number;
}

/** The stretch that is wanted, or the nearest that there is. */
export function within(length: number, from: number, to: number): Window {
  const width = Math.min(length, Math.max(Math.min(LEAST, length), to - from));
  const middle = (from + to) / 2;
  const start = Math.min(Math.max(0, middle - width / 2), length - width);
  return { from: start, to: start + width };
}

/** A stretch `factor` times as wide; what is at `around` stays where it is. */
export function zoomed(length: number, { from, to }: Window, factor: number, around: number): Window {
  const width = Math.min(length, Math.max(LEAST, (to - from) * factor));
  const start = around - ((around - from) / (to - from)) * width;
  return within(length, start, start + width);
}

/** A stretch in which something can be seen with what is around it. */
export function around(length: number, from: number, to: number): Window {
  const room = Math.max((to - from) * 1.5, LEAST * 5, length / 1e7);
  return within(length, from - room, to + room);
}
