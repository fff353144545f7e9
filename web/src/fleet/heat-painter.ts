// Draws the visible part of the heat map.

import type { Colors } from "../charts/colors";
import { fittingEnd } from "../text-width";
import type { HeatColors } from "./colors";
import type { Fleet } from "./data";
import { type HeatLayout, NAMED } from "./layout";

/** The width of the marks of ranks that ran out of memory, right of the plot. */
export const MARKS = 14;
/** Rows of this height have a line between them. */
const SEPARATED = 6;
const LETTER = 12;
const MIN_GUTTER = 90;

export interface HeatPaint {
  fleet: Fleet;
  layout: HeatLayout;
  /** The rank of each row. */
  order: Uint32Array;
  scrolled: number;
  width: number;
  height: number;
  colors: Colors;
  heat: HeatColors;
}

/** The width left of the plot, for the names of runs and ranks. */
export function gutterOf(width: number, layout: HeatLayout): number {
  const [part, most] = layout.row >= NAMED ? [0.3, 320] : [0.18, 200];
  return Math.round(Math.min(most, Math.max(MIN_GUTTER, width * part)));
}

/** The highest share of some ranks in a part, and whose it is; -1 if no value is known. */
export function highest(
  fleet: Pick<Fleet, "shareOf" | "cells" | "parts">,
  ranks: ArrayLike<number>,
  part: number,
): { rank: number; share: number } {
  let [rank, share] = [-1, Number.NaN];
  for (let at = 0; at < ranks.length; at++) {
    const found = fleet.shareOf(ranks[at], part);
    // Memory of an unknown capacity counts only if nothing else is known.
    if (found > share || (Number.isNaN(share) && !Number.isNaN(found))) [rank, share] = [ranks[at], found];
    else if (rank < 0 && !Number.isNaN(fleet.cells[ranks[at] * fleet.parts + part])) rank = ranks[at];
  }
  return { rank, share };
}

let cells: HTMLCanvasElement | undefined;

/** Draws everything; returns the number of cells. */
export function paintHeat(context: CanvasRenderingContext2D, paint: HeatPaint): number {
  const { fleet, layout, width, height, colors } = paint;
  const gutter = gutterOf(width, layout);
  const plot = width - gutter - MARKS;
  eachGroup(paint, (group, top, bottom) => {
    context.fillStyle = colors.get("line-2");
    context.fillRect(gutter, top, plot, bottom - top);
    nameRun(context, paint, group, top, bottom, gutter);
  });
  const lines = context.canvas.height;
  cells ??= document.createElement("canvas");
  cells.width = fleet.parts;
  cells.height = lines;
  const image = new ImageData(fleet.parts, lines);
  const { drawn, failed } = fillImage(image, paint, height / lines);
  cells.getContext("2d")?.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(cells, gutter, 0, plot, height);
  context.fillStyle = colors.get("bad");
  for (const y of failed)
    context.fillRect(gutter + plot + 4, y - 1, 8, Math.max(3, Math.min(layout.row, NAMED) - 1));
  if (layout.row >= NAMED) nameRanks(context, paint, gutter);
  return drawn;
}

/** Colors one line of pixels after another: several ranks may share it. Returns the positions of marks as well. */
function fillImage(image: ImageData, paint: HeatPaint, pixel: number): { drawn: number; failed: number[] } {
  const { fleet, layout, order, scrolled, heat } = paint;
  const { parts } = fleet;
  const { cause } = fleet.ranks;
  const pixels = new Uint32Array(image.data.buffer);
  const failed: number[] = [];
  let drawn = 0;
  let before = { first: -1, end: -1 };
  for (let line = 0; line < image.height; line++) {
    const from = scrolled + line * pixel;
    const { first, end } = layout.rowsIn(from, from + pixel);
    if (first >= end) continue;
    const isSame = first === before.first && end === before.end;
    if (!isSame) {
      const ranks = order.subarray(first, end);
      if (ranks.some((rank) => cause[rank] !== null)) failed.push(Math.max(0, from - scrolled));
      for (let part = 0; part < parts; part++) {
        const { rank, share } = highest(fleet, ranks, part);
        if (rank < 0) continue;
        pixels[line * parts + part] = Number.isNaN(share) ? heat.unknown : heat.of(share);
        drawn++;
      }
    } else if (layout.row < SEPARATED || from < layout.topOf(first) + layout.row - 1) {
      pixels.copyWithin(line * parts, (line - 1) * parts, line * parts);
    }
    before = { first, end };
  }
  return { drawn, failed };
}

/** Calls `then` for each visible run with its visible range. */
function eachGroup(
  { layout, scrolled, height }: HeatPaint,
  then: (group: number, top: number, bottom: number) => void,
): void {
  for (let group = 0; group < layout.groups.length; group++) {
    const top = layout.groupTop(group) - scrolled;
    const bottom = top + layout.groupHeight(group);
    if (top > height) return;
    if (bottom >= 0) then(group, Math.max(0, top), Math.min(height, bottom));
  }
}

function nameRun(
  context: CanvasRenderingContext2D,
  { layout, colors }: HeatPaint,
  group: number,
  top: number,
  bottom: number,
  gutter: number,
): void {
  if (bottom - top < LETTER) return;
  write(context, colors, layout.groups[group].run, 0, top, runWidth(gutter, layout), "ink");
}

function nameRanks(context: CanvasRenderingContext2D, paint: HeatPaint, gutter: number): void {
  const { fleet, layout, order, scrolled, height, colors } = paint;
  const left = runWidth(gutter, layout);
  const { first, end } = layout.rowsIn(scrolled, scrolled + height);
  for (let row = first; row < end; row++) {
    const name = fleet.nameOf(order[row]);
    write(context, colors, name, left, layout.topOf(row) - scrolled, gutter - left, "ink-2");
  }
}

function runWidth(gutter: number, layout: HeatLayout): number {
  return layout.row >= NAMED ? Math.round(gutter * 0.5) : gutter;
}

function write(
  context: CanvasRenderingContext2D,
  colors: Colors,
  text: string,
  left: number,
  top: number,
  width: number,
  color: string,
): void {
  context.font = `${LETTER}px ${colors.font}`;
  context.fillStyle = colors.get(color);
  context.textBaseline = "top";
  const fits = fittingEnd(text, width - 10, (part) => context.measureText(part).width);
  context.fillText(fits, left + 2, top + 2);
}
