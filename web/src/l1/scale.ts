// The vertical scale of the map: proportional to the addresses, but every segment is tall enough to be seen and clicked.

import { isPlaced, type Segment } from "./segments";

export interface Scale {
  low: number;
  high: number;
  /** The distance from the bottom, in pixels. */
  up(address: number): number;
}

/** The scale of segments that are at least `min` pixels high, in a map of `height` pixels that shows at least 0 to `size`. */
export function scaleOf(segments: readonly Segment[], size: number, height: number, min: number): Scale {
  const ends = segments.filter(isPlaced).flatMap(({ start, end }) => [start, end]);
  const bounds = [...new Set([0, size, ...ends])].sort((a, b) => a - b);
  const sizes = bounds.slice(1).map((bound, index) => bound - bounds[index]);
  const heights = heightsOf(sizes, height, Math.min(min, height / Math.max(1, sizes.length)));
  const at = [0];
  for (const height of heights) at.push(at[at.length - 1] + height);
  const up = (address: number) => {
    let index = bounds.findIndex((bound) => bound > address) - 1;
    if (index < 0) index = address < bounds[0] ? 0 : bounds.length - 2;
    const share = (address - bounds[index]) / (bounds[index + 1] - bounds[index]);
    return at[index] + Math.min(1, Math.max(0, share)) * heights[index];
  };
  return { low: bounds[0], high: bounds[bounds.length - 1], up };
}

/** Divides a height in proportion to the sizes; none gets less than `min`. */
export function heightsOf(sizes: readonly number[], height: number, min: number): number[] {
  const isTiny = sizes.map(() => false);
  for (;;) {
    const tiny = isTiny.filter(Boolean).length;
    const rest = sizes.reduce((sum, size, index) => (isTiny[index] ? sum : sum + size), 0);
    const perByte = rest > 0 ? (height - tiny * min) / rest : 0;
    const more = sizes.flatMap((size, index) => (!isTiny[index] && size * perByte < min ? [index] : []));
    // If all were tiny, rounding would be the only reason.
    if (more.length === 0 || more.length + tiny === sizes.length) {
      return sizes.map((size, index) => (isTiny[index] ? min : size * perByte));
    }
    for (const index of more) isTiny[index] = true;
  }
}
