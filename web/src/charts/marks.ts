// The annotations of the memory chart: program runs or phases, steps that create or load weights, changes outside
// programs, and the out-of-memory error.

import { Mark, type Pool, type Rank } from "../data/report";
import { count, shorten } from "../format";
import { hatching, translucent } from "./colors";
import { LETTER, RUN_STRIP } from "./layout";
import type { Paint } from "./line-chart";
import { rowFrom } from "./resample";

const TICK_HEIGHT = 7;
/** Runs narrower than this, in CSS pixels, are merged into one band. */
const NARROW = 3;

const weights = new WeakMap<Rank, Uint32Array>();

/** The steps that create or load weights, in order. */
export function weightSteps(rank: Rank): Uint32Array {
  let steps = weights.get(rank);
  if (!steps) {
    const { marks } = rank.steps;
    const found: number[] = [];
    for (let step = 0; step < marks.length; step++) if (marks[step] & Mark.Weight) found.push(step);
    steps = Uint32Array.from(found);
    weights.set(rank, steps);
  }
  return steps;
}

/** Paints red ticks at the bottom, at most one per pixel. */
export function paintWeights(paint: Paint, rank: Rank): void {
  const { context, ratio, from, to } = paint;
  const steps = weightSteps(rank);
  const perPixel = ((to - from) / paint.width) * ratio;
  const bottom = paint.top + paint.height;
  context.fillStyle = paint.colors.get("weight-mark");
  for (let row = rowFrom(steps, Math.ceil(from)); row < steps.length && steps[row] <= to; ) {
    const left = Math.round(paint.x(steps[row]) - ratio / 2);
    context.fillRect(left, bottom - TICK_HEIGHT * ratio, Math.max(1, Math.round(ratio)), TICK_HEIGHT * ratio);
    row = Math.max(row + 1, rowFrom(steps, Math.ceil(steps[row] + perPixel), row));
  }
}

/** Paints a background band for each run, with its name above it if there is room. */
export function paintRuns(paint: Paint, rank: Rank): void {
  const { parent, first, end, constEval } = rank.runs;
  let drawnUntil = Number.NEGATIVE_INFINITY;
  let odd = false;
  for (let run = 0; run < first.length; run++) {
    const isTop = parent[run] < 0;
    if (isTop) odd = !odd;
    if (end[run] <= paint.from || first[run] >= paint.to || !(isTop || constEval[run])) continue;
    const left = Math.round(paint.x(Math.max(first[run], paint.from)));
    const right = Math.round(paint.x(Math.min(end[run], paint.to)));
    if (constEval[run]) paintConstEval(paint, left, right);
    if (!isTop || right - left < 1) continue;
    if (right - left < NARROW * paint.ratio) {
      // One gray for many narrow runs: alternating bands of one pixel would flicker.
      if (left >= drawnUntil) paintBand(paint, left, right, 0.3);
      drawnUntil = right;
      continue;
    }
    paintBand(paint, left, right, odd ? 0.55 : 0.15);
    paintRunName(paint, rank, run, left, right);
  }
}

function paintBand(paint: Paint, left: number, right: number, share: number): void {
  const { context, ratio } = paint;
  const strip = (RUN_STRIP - 4) * ratio;
  context.fillStyle = translucent(paint.colors.get("line"), share);
  context.fillRect(left, paint.top - strip, right - left, strip);
  context.fillStyle = translucent(paint.colors.get("line-2"), share);
  context.fillRect(left, paint.top, right - left, paint.height);
}

/** Tints const-eval runs: they create weights and usually run once. */
function paintConstEval(paint: Paint, left: number, right: number): void {
  const { context, ratio } = paint;
  const strip = (RUN_STRIP - 4) * ratio;
  const width = Math.max(1, right - left);
  context.fillStyle = translucent(paint.colors.get("weight-mark"), 0.13);
  context.fillRect(left, paint.top - strip, width, strip);
  context.fillStyle = translucent(paint.colors.get("weight-mark"), 0.045);
  context.fillRect(left, paint.top, width, paint.height);
}

function paintRunName(paint: Paint, rank: Rank, run: number, left: number, right: number): void {
  const number = count(rank.runs.number[run]);
  const program = rank.report.texts.get(rank.runs.program[run]);
  const names = [
    `${program} · run ${number}`,
    `${shorten(program, 24)} · run ${number}`,
    `run ${number}`,
    number,
  ];
  paintName(paint, names, left, right);
}

/** Paints the first name that fits into the strip above a band. */
function paintName(paint: Paint, names: string[], left: number, right: number): void {
  const { context, ratio } = paint;
  const room = right - left - 8 * ratio;
  if (room < 14 * ratio) return;
  context.save();
  context.font = `${(LETTER - 1) * ratio}px ${paint.colors.font}`;
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillStyle = paint.colors.get("ink-2");
  const fitting = names.find((text) => context.measureText(text).width <= room);
  const middle = paint.top - ((RUN_STRIP - 4) / 2) * ratio;
  if (fitting) context.fillText(fitting, left + 4 * ratio, middle);
  context.restore();
}

/** Paints a background band for each phase with steps, with its name above it if there is room. */
export function paintPhases(paint: Paint, rank: Rank): void {
  let drawnUntil = Number.NEGATIVE_INFINITY;
  for (const [index, phase] of rank.summary.phases.entries()) {
    const { first_step: first, end_step: end, name } = phase;
    if (first === null || end === null || end <= paint.from || first >= paint.to) continue;
    const left = Math.round(paint.x(Math.max(first, paint.from)));
    const right = Math.round(paint.x(Math.min(end, paint.to)));
    if (right - left < NARROW * paint.ratio) {
      if (left >= drawnUntil) paintBand(paint, left, right, 0.3);
      drawnUntil = right;
      continue;
    }
    paintBand(paint, left, right, index % 2 === 0 ? 0.55 : 0.15);
    paintName(paint, [name, shorten(name, 24), shorten(name, 12)], left, right);
  }
}

/** Paints a line at the step that ran out of memory, and a label next to it on the side with more room. */
export function paintOom(paint: Paint, { summary: { oom } }: Rank): void {
  const step = oom?.step ?? null;
  if (step === null || step < paint.from || step > paint.to) return;
  const { context, ratio } = paint;
  const [text, padding, height] = ["out of memory", 5 * ratio, (LETTER + 6) * ratio];
  const x = paint.x(step);
  context.save();
  context.fillStyle = paint.colors.get("bad");
  context.fillRect(Math.round(x - ratio), paint.top, 2 * ratio, paint.height);
  context.font = `600 ${(LETTER - 1) * ratio}px ${paint.colors.font}`;
  context.textAlign = "left";
  context.textBaseline = "middle";
  const width = context.measureText(text).width + 2 * padding;
  const left = x - paint.left > paint.width / 2 ? x - width : x;
  // Below the limit line and the flag of the pinned moment.
  const top = paint.top + paint.height * 0.3;
  context.fillRect(left, top, width, height);
  context.fillStyle = paint.colors.get("card");
  context.fillText(text, left + padding, top + height / 2 + ratio);
  context.restore();
}

/** Paints changes between programs: a dotted line, and a hatched band if half a step is wide enough. */
export function paintOutside(paint: Paint, rank: Rank, pool: Pool): void {
  const { context, ratio } = paint;
  const color = paint.colors.get("ink-3");
  let last = Number.NEGATIVE_INFINITY;
  context.save();
  const hatched = hatching(context, translucent(color, 0.5), ratio);
  context.strokeStyle = color;
  context.lineWidth = 1.5 * ratio;
  context.setLineDash([1.5 * ratio, 3 * ratio]);
  for (const { pool: name, step } of rank.summary.outside) {
    if (name !== pool.name || step < paint.from || step - 0.5 > paint.to) continue;
    const [left, right] = [paint.x(Math.max(step - 0.5, paint.from)), paint.x(Math.min(step, paint.to))];
    if (right - left >= 6 * ratio) {
      context.fillStyle = hatched;
      context.fillRect(left, paint.top, right - left, paint.height);
    }
    if (right - last < 2 * ratio) continue;
    last = right;
    context.beginPath();
    context.moveTo(right, paint.top);
    context.lineTo(right, paint.top + paint.height);
    context.stroke();
  }
  context.restore();
}
