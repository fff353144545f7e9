// Draws the rows of calls and the memory curve below them, only as far as they are visible.

import { type Colors, translucent } from "../charts/colors";
import { byteTicks } from "../charts/ticks";
import { shorten } from "../format";
import { type BarColors, barColors } from "./colors";
import { highestIn, pixelsOf } from "./curve";
import type { GanttData, TimeCurve } from "./data";
import { BAR, type Layout, MEMORY_HEIGHT, ROW, TIME_AXIS } from "./layout";
import { timeTicks } from "./time";
import { eachBar, type View } from "./visible";

/** The highlights of calls. */
export interface Emphasis {
  /** For each scope whether the search found it; `null` if there is no search. */
  found: Uint8Array | null;
  /** For each call whether it is in the chain; `null` if the chain is not highlighted. */
  chain: Uint8Array | null;
  /** The selected call; -1 for none. */
  chosen: number;
}

/** The approximate width of a character, in pixels. */
const LETTER = 6.2;
const FONT_SIZE = 11.5;

/** The colors of scopes in a theme, cached. */
export class ScopeColors {
  private readonly known: (BarColors | undefined)[] = [];

  constructor(
    private readonly data: GanttData,
    readonly theme: "light" | "dark",
  ) {}

  of(scope: number): BarColors {
    let colors = this.known[scope];
    if (!colors) {
      const kind = this.data.meta.kinds[this.data.scopeKind[scope]] ?? "operation";
      colors = barColors(kind, this.data.scopeName[scope], this.theme);
      this.known[scope] = colors;
    }
    return colors;
  }
}

/** Sets a canvas to its displayed size and clears it. */
export function prepare(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  if (!context) throw new Error("the browser does not support canvas");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

export interface RowsPaint {
  data: GanttData;
  layout: Layout;
  view: View;
  gutter: number;
  /** The scroll offset and the visible height of the rows. */
  scrolled: number;
  height: number;
  colors: Colors;
  scopes: ScopeColors;
  emphasis: Emphasis;
}

/** Paints the rows; returns the number of bars (for tests). */
export function paintRows(context: CanvasRenderingContext2D, paint: RowsPaint): number {
  const { data, layout, view, gutter, scrolled, height } = paint;
  paintLanes(context, paint);
  context.save();
  context.beginPath();
  context.rect(gutter, 0, view.width, height);
  context.clip();
  context.font = `${FONT_SIZE}px ${paint.colors.font}`;
  context.textBaseline = "middle";
  context.textAlign = "left";
  let bars = 0;
  for (let row = layout.firstRowFrom(scrolled); row < data.rowCount; row++) {
    const top = layout.topOf(row) - scrolled;
    if (top > height) break;
    eachBar(data, row, view, (left, right, call) => {
      paintBar(context, paint, gutter + left, gutter + right, top, call);
      bars++;
    });
  }
  context.restore();
  return bars;
}

function paintBar(
  context: CanvasRenderingContext2D,
  { data, scopes, emphasis, colors }: RowsPaint,
  left: number,
  right: number,
  top: number,
  call: number,
): void {
  const scope = data.scope[call];
  const isFound = emphasis.found === null || emphasis.found[scope] === 1;
  const { fill, faded, ink } = scopes.of(scope);
  context.fillStyle = isFound ? fill : faded;
  const isMark = Number.isNaN(data.until[call]);
  if (isMark) {
    paintMark(context, left, top);
  } else {
    // Consecutive bars are separated by a thin gap if there is room for one.
    const width = right - left;
    context.fillRect(left, top, width > 3 ? width - 1 : width, BAR);
    if (data.stillRan[call]) paintOpenEnd(context, right, top, colors);
    if (width > 26 && isFound) {
      context.fillStyle = ink;
      // The name of a bar that begins left of the view is drawn in its visible part.
      const room = width - 9;
      context.fillText(
        shorten(data.scopeName[scope], Math.max(3, Math.floor(room / LETTER))),
        left + 4,
        top + BAR / 2 + 0.5,
        room,
      );
    }
  }
  if (emphasis.chain?.[call] === 1) {
    context.fillStyle = colors.get("bad");
    context.fillRect(left, top + BAR - 2.5, Math.max(1, right - left - (right - left > 3 ? 1 : 0)), 2.5);
  }
  if (emphasis.chosen === call) {
    context.strokeStyle = colors.get("pin");
    context.lineWidth = 2;
    context.strokeRect(left - (isMark ? 4 : 0), top, Math.max(isMark ? 8 : 2, right - left - 1), BAR);
  }
}

/** Paints a call whose duration is unknown, as a mark. */
function paintMark(context: CanvasRenderingContext2D, left: number, top: number): void {
  const middle = left + 0.5;
  context.fillRect(middle - 0.75, top, 1.5, BAR);
  context.beginPath();
  context.moveTo(middle, top + 3);
  context.lineTo(middle + 4, top + BAR / 2);
  context.lineTo(middle, top + BAR - 3);
  context.lineTo(middle - 4, top + BAR / 2);
  context.fill();
}

/** Paints the open right end of a call that was still running. */
function paintOpenEnd(context: CanvasRenderingContext2D, right: number, top: number, colors: Colors): void {
  context.fillStyle = colors.get("card");
  for (let step = 0; step < 3; step++) context.fillRect(right - 4 - step * 5, top, 2, BAR);
}

function paintLanes(context: CanvasRenderingContext2D, paint: RowsPaint): void {
  const { data, layout, view, gutter, scrolled, height, colors } = paint;
  context.font = `600 ${FONT_SIZE}px ${colors.font}`;
  context.textBaseline = "middle";
  context.textAlign = "left";
  paintGrid(context, view, gutter, 0, height, colors);
  data.lanes.forEach(({ name, rows }, lane) => {
    const top = layout.laneTop[lane] - scrolled;
    const bottom = top + rows * ROW;
    if (rows === 0 || bottom < 0 || top > height) return;
    context.fillStyle = colors.get("line");
    if (top > 6) context.fillRect(0, Math.round(top) - 5, gutter + view.width, 1);
    // The name stays visible as long as its lane is.
    const at = Math.min(Math.max(top, 0), bottom - ROW) + BAR / 2 + 1;
    context.fillStyle = colors.get("ink-2");
    const letters = Math.floor((gutter - 12) / (LETTER + 0.6));
    context.fillText(shorten(name, letters), 2, at, gutter - 10);
  });
}

function paintGrid(
  context: CanvasRenderingContext2D,
  view: View,
  gutter: number,
  top: number,
  bottom: number,
  colors: Colors,
): void {
  context.fillStyle = colors.get("line-2");
  for (const { at } of timeTicks(view.from, view.to, view.width / 110)) {
    const x = gutter + ((at - view.from) / (view.to - view.from)) * view.width;
    context.fillRect(Math.round(x), top, 1, bottom - top);
  }
}

export interface MemoryPaint {
  curve: TimeCurve | undefined;
  snapshots: GanttData["snapshots"];
  view: View;
  gutter: number;
  colors: Colors;
}

/** Draws the memory and the time axis. */
export function paintMemory(context: CanvasRenderingContext2D, paint: MemoryPaint): void {
  const { curve, view, gutter, colors } = paint;
  const height = curve ? MEMORY_HEIGHT : 0;
  context.font = `${FONT_SIZE}px ${colors.font}`;
  paintGrid(context, view, gutter, 0, height + 4, colors);
  if (curve) paintCurve(context, paint, curve);
  context.fillStyle = colors.get("line");
  context.fillRect(gutter, height, view.width, 1);
  context.fillStyle = colors.get("ink-2");
  context.textBaseline = "top";
  context.textAlign = "center";
  for (const { at, label } of timeTicks(view.from, view.to, view.width / 110)) {
    const x = gutter + ((at - view.from) / (view.to - view.from)) * view.width;
    context.fillText(label, Math.min(Math.max(x, gutter + 8), gutter + view.width - 16), height + 8);
  }
  paintSnapshots(context, paint, height);
}

function paintCurve(context: CanvasRenderingContext2D, paint: MemoryPaint, curve: TimeCurve): void {
  const { view, gutter, colors } = paint;
  const pixels = pixelsOf(curve, view);
  const highest = highestIn(pixels);
  const top = highest > 0 ? highest * 1.08 : 1024;
  const y = (bytes: number) => MEMORY_HEIGHT - (bytes / top) * (MEMORY_HEIGHT - 6);
  const ticks = byteTicks(0, top, 3);
  context.textBaseline = "middle";
  context.textAlign = "right";
  ticks.at.forEach((bytes, tick) => {
    context.fillStyle = colors.get("line-2");
    context.fillRect(gutter, Math.round(y(bytes)), view.width, 1);
    context.fillStyle = colors.get("ink-2");
    context.fillText(ticks.labels[tick], gutter - 6, Math.max(7, y(bytes)));
  });
  context.fillStyle = translucent(colors.get("allocated"), 0.22);
  pixels.high.forEach((high, pixel) => {
    // NaN is not drawn: memory is unknown before the first measurement.
    if (high >= 0) context.fillRect(gutter + pixel, y(high), 1, MEMORY_HEIGHT - y(high));
  });
  context.fillStyle = colors.get("allocated");
  let before = Number.NaN;
  pixels.high.forEach((high, pixel) => {
    if (high >= 0) {
      const from = Math.max(high, Number.isNaN(before) ? high : before);
      const to = Math.min(pixels.low[pixel], Number.isNaN(before) ? high : before);
      context.fillRect(gutter + pixel, y(from) - 0.75, 1, y(to) - y(from) + 1.5);
    }
    before = pixels.last[pixel];
  });
}

/** Paints named snapshots as small triangles on the axis. */
function paintSnapshots(context: CanvasRenderingContext2D, paint: MemoryPaint, axis: number): void {
  const { view, gutter, colors } = paint;
  context.fillStyle = colors.get("ink-3");
  let drawn = -10;
  for (const { name, at } of paint.snapshots) {
    if (name === null || at < view.from || at > view.to) continue;
    const x = gutter + ((at - view.from) / (view.to - view.from)) * view.width;
    if (x - drawn < 3) continue;
    drawn = x;
    context.beginPath();
    context.moveTo(x - 3.5, axis + 7);
    context.lineTo(x + 3.5, axis + 7);
    context.lineTo(x, axis + 1);
    context.fill();
  }
}

/** The height of the memory canvas. */
export const memoryHeight = (hasCurve: boolean): number => (hasCurve ? MEMORY_HEIGHT : 0) + TIME_AXIS;
