// Paints stacked tensor bands.

import type { Band, Stack } from "./bands";
import { hatching, translucent } from "./colors";
import type { Paint } from "./line-chart";

/** Bands lower or narrower than this, in CSS pixels, have no outline: it would cover them. */
const MIN_OUTLINED = 4;

/** Paints all bands. `classOf` returns a tensor's class; `roles` has the color role of each class. */
export function paintStack(
  paint: Paint,
  stack: Stack,
  roles: string[],
  classOf: (tensor: number) => number,
): void {
  const { context, colors, ratio } = paint;
  context.save();
  context.beginPath();
  context.rect(paint.left, paint.top, paint.width, paint.height);
  context.clip();
  for (const sums of stack.small) {
    const top = sums.base.map((base, column) => base + sums.bytes[column]);
    context.fillStyle = translucent(colors.get(roles[sums.class]), 0.6);
    fillBetween(paint, stack, 0, sums.base, top);
  }
  context.lineWidth = Math.max(1, ratio * 0.75);
  context.strokeStyle = colors.get("card");
  const tall = paint.y(0) - paint.y(1);
  const column = paint.width / stack.columns.moments.length;
  stack.bands.forEach((band, index) => {
    // Neighbors of the same class alternate in opacity, so that they can be distinguished.
    context.fillStyle = translucent(colors.get(roles[classOf(band.tensor)]), index % 2 === 0 ? 0.95 : 0.78);
    bandPath(paint, stack, band);
    context.fill();
    const wide = (band.end - band.first) * column;
    if (Math.min(band.bytes * tall, wide) >= MIN_OUTLINED * ratio) context.stroke();
  });
  context.fillStyle = hatching(context, colors.get("unexplained"), ratio);
  const rest = stack.top.map((top, column) => Math.max(top, stack.columns.held[column] || 0));
  fillBetween(paint, stack, 0, stack.top, rest);
  context.restore();
}

/** Sets the path to a band's outline. */
export function bandPath(paint: Paint, stack: Stack, band: Band): void {
  const top = band.base.map((base) => base + band.bytes);
  paint.context.beginPath();
  outline(paint, stack, band.first, band.base, top);
}

function fillBetween(paint: Paint, stack: Stack, first: number, low: Float64Array, high: Float64Array): void {
  paint.context.beginPath();
  outline(paint, stack, first, low, high);
  paint.context.fill();
}

/** Traces the upper edge to the right and the lower edge back, in steps. */
function outline(paint: Paint, stack: Stack, first: number, low: Float64Array, high: Float64Array): void {
  const { context } = paint;
  const width = paint.width / stack.columns.moments.length;
  const across = (column: number) => paint.left + (first + column) * width;
  const steps = (edge: Float64Array, column: number, next: number) => {
    const [here, there] =
      next > column ? [across(column), across(next)] : [across(column + 1), across(column)];
    const y = paint.y(edge[column]);
    context.lineTo(here, y);
    context.lineTo(there, y);
  };
  const changes = (edge: Float64Array, column: number, other: number) =>
    column === 0 || column === edge.length - 1 || edge[column] !== edge[other];
  context.moveTo(across(0), paint.y(low[0]));
  for (let column = 0; column < high.length; column++) {
    if (changes(high, column, column - 1) || changes(high, column, column + 1))
      steps(high, column, column + 1);
  }
  for (let column = low.length - 1; column >= 0; column--) {
    if (changes(low, column, column - 1) || changes(low, column, column + 1)) steps(low, column, column - 1);
  }
  context.closePath();
}
