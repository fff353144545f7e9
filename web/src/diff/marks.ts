// The annotations of the chart of a comparison: places that only one input has, peaks, errors, and the tensors of the
// selected change.

import { translucent } from "../charts/colors";
import { LETTER, RUN_STRIP } from "../charts/layout";
import type { Paint } from "../charts/line-chart";
import { firstMomentFrom, rowFrom, xOf } from "../charts/resample";
import type { Curve } from "../data/report";
import { size } from "../format";
import { type AlignedPool, type AlignedRank, type Both, Kind, SIDES, type Side } from "./data";

/** The color of each kind of place that only one input has. */
const COLORS: ReadonlyMap<number, string> = new Map([
  [Kind.Before, "diff-before"],
  [Kind.After, "diff-after"],
  [Kind.MovedBefore, "diff-moved"],
  [Kind.MovedAfter, "diff-moved"],
]);
const STRIP = 10;
/** The height of the bar that shows where the selected tensors live. */
const LANE = 5;

/** The x coordinate where a place begins: right after the one before it. */
const startOf = (place: number): number => (place === 0 ? 0 : place - 0.5);

/** Paints a strip above the plot, and a tint in it, where only one input has steps. */
export function paintStretches(paint: Paint, rank: AlignedRank): void {
  if ((paint.to - paint.from) / paint.width <= 1) paintEach(paint, rank);
  else paintShares(paint, rank);
}

/** Paints each visible stretch. */
function paintEach(paint: Paint, { stretches, end }: AlignedRank): void {
  if (end === 0) return;
  for (
    let row = stretches.at(Math.min(end - 1, Math.max(0, Math.floor(paint.from))));
    row < stretches.count;
    row++
  ) {
    const [from, to] = [startOf(stretches.start[row]), startOf(stretches.start[row + 1])];
    if (from >= paint.to) return;
    const color = COLORS.get(stretches.kind[row]);
    if (!color || to <= paint.from) continue;
    const left = Math.round(paint.x(Math.max(from, paint.from)));
    const right = Math.round(paint.x(Math.min(to, paint.to)));
    paintColumn(paint, color, left, Math.max(1, right - left), 1);
  }
}

/** Paints the share of each kind in every pixel. */
function paintShares(paint: Paint, { stretches, end }: AlignedRank): void {
  const placeAt = (pixel: number) => {
    const x = paint.from + (pixel / paint.width) * (paint.to - paint.from);
    return Math.min(end, Math.max(0, Math.round(x)));
  };
  for (let pixel = 0; pixel < Math.floor(paint.width); pixel++) {
    const [first, last] = [placeAt(pixel), placeAt(pixel + 1)];
    if (last <= first) continue;
    for (const [kind, color] of COLORS) {
      const places = stretches.placesBefore(kind, last) - stretches.placesBefore(kind, first);
      // A single place among thousands must be visible.
      if (places > 0)
        paintColumn(paint, color, paint.left + pixel, 1, Math.max(0.4, places / (last - first)));
    }
  }
}

function paintColumn(paint: Paint, color: string, left: number, width: number, share: number): void {
  const { context, ratio } = paint;
  const own = paint.colors.get(color);
  context.fillStyle = translucent(own, 0.9 * share);
  context.fillRect(left, paint.top - (RUN_STRIP - 4) * ratio, width, STRIP * ratio);
  context.fillStyle = translucent(own, 0.12 * share);
  context.fillRect(left, paint.top, width, paint.height);
}

/** Paints where the tensors of a change live: a bar at the bottom for each input. */
export function paintLives(paint: Paint, lives: Both<Curve | null>): void {
  SIDES.forEach((side, row) => {
    const curve = lives[side];
    const bottom = paint.top + paint.height - (1 - row) * (LANE + 1) * paint.ratio;
    if (curve) paintLane(paint, curve, bottom - LANE * paint.ratio, paint.colors.get(`diff-${side}`));
  });
}

function paintLane(paint: Paint, { at, value }: Curve, top: number, color: string): void {
  const { context, ratio, from, to } = paint;
  const perPixel = (to - from) / paint.width;
  context.fillStyle = color;
  let row = Math.max(0, rowFrom(at, firstMomentFrom(from) + 1) - 1);
  while (row < at.length && xOf(at[row]) <= to) {
    if (value[row] === 0) {
      row += 1;
      continue;
    }
    let end = row + 1;
    while (end < at.length && value[end] !== 0 && xOf(at[end]) <= to) end += 1;
    const left = paint.x(Math.max(from, xOf(at[row])));
    const right = end < at.length ? paint.x(Math.min(to, xOf(at[end]))) : paint.left + paint.width;
    context.fillRect(left, top, Math.max(ratio, right - left), LANE * ratio);
    // Lives that end in the same pixel are not visible on their own.
    const rest = rowFrom(at, firstMomentFrom(from + (Math.ceil(right - paint.left) + 1) * perPixel), end) - 1;
    row = Math.max(end, rest);
  }
}

/** Paints the peak of each input, with its size. */
export function paintPeaks(paint: Paint, pool: AlignedPool, shown: (side: Side) => boolean): void {
  const peaks = SIDES.filter(shown).flatMap((side) => {
    const moment = pool.peak[side];
    if (moment === null || xOf(moment) < paint.from || xOf(moment) > paint.to) return [];
    const bytes = pool.heldAt(side, moment);
    return [{ side, bytes, x: paint.x(xOf(moment)), y: paint.y(bytes) }];
  });
  // The label of the left one is on its left side, so that they don't overlap.
  const leftmost = peaks.length === 2 && peaks[1].x < peaks[0].x ? 1 : 0;
  let above: Box | null = null;
  peaks.forEach((peak, index) => {
    above = paintPeak(paint, peak, peaks.length === 2 && index === leftmost, above);
  });
}

/** The place of a label, in canvas pixels. */
interface Box {
  left: number;
  right: number;
  middle: number;
}

function paintPeak(
  paint: Paint,
  { side, bytes, x, y }: { side: Side; bytes: number; x: number; y: number },
  prefersLeft: boolean,
  above: Box | null,
): Box {
  const { context, ratio, colors } = paint;
  const text = `peak ${side}: ${size(bytes)}`;
  context.save();
  context.fillStyle = colors.get(`diff-${side}`);
  context.strokeStyle = colors.get("card");
  context.lineWidth = 1.5 * ratio;
  context.beginPath();
  context.arc(x, y, 4.5 * ratio, 0, 2 * Math.PI);
  context.fill();
  context.stroke();
  context.font = `600 ${(LETTER - 1) * ratio}px ${colors.font}`;
  context.textBaseline = "middle";
  context.textAlign = "left";
  const width = context.measureText(text).width + 8 * ratio;
  const gap = 8 * ratio;
  const hasLeft = x - gap - width > paint.left;
  const hasRight = x + gap + width < paint.left + paint.width;
  const isLeft = prefersLeft ? hasLeft || !hasRight : !hasRight && hasLeft;
  const left = isLeft ? x - gap - width : x + gap;
  // Below the flag of the pinned moment.
  let middle = Math.max(y, paint.top + 27 * ratio);
  const isCovered = above && left < above.right && above.left < left + width;
  if (isCovered && Math.abs(middle - above.middle) < 17 * ratio) middle = above.middle + 17 * ratio;
  context.fillStyle = translucent(colors.get("card"), 0.8);
  context.fillRect(left, middle - 8 * ratio, width, 16 * ratio);
  context.fillStyle = colors.get(`diff-${side}`);
  context.fillText(text, left + 4 * ratio, middle + ratio);
  context.restore();
  return { left, right: left + width, middle };
}

/** Paints a line where an input ran out of memory. */
export function paintFailures(paint: Paint, { failed }: AlignedRank): void {
  const { context, ratio, colors } = paint;
  for (const side of SIDES) {
    const place = failed[side];
    if (place === null || place < paint.from || place > paint.to) continue;
    const x = paint.x(place);
    const text = `out of memory (${side})`;
    context.save();
    context.fillStyle = colors.get("bad");
    context.fillRect(Math.round(x - ratio), paint.top, 2 * ratio, paint.height);
    context.font = `600 ${(LETTER - 1) * ratio}px ${colors.font}`;
    context.textAlign = "left";
    context.textBaseline = "middle";
    const [width, height] = [context.measureText(text).width + 10 * ratio, (LETTER + 6) * ratio];
    const left = x - paint.left > paint.width / 2 ? x - width : x;
    const top = paint.top + paint.height * (side === "before" ? 0.35 : 0.5);
    context.fillRect(left, top, width, height);
    context.fillStyle = colors.get("card");
    context.fillText(text, left + 5 * ratio, top + height / 2 + ratio);
    context.restore();
  }
}
