// The content of tooltips: the moment, its step and program, and rows of sizes.

import type { Pool, Rank } from "../data/report";
import { h } from "../dom";
import { stackElements } from "../flame/stack-lines";
import { change, count, shorten, size } from "../format";
import type { PhaseSummary } from "../generated/answers";

const LOCATION_LETTERS = 64;

/** The step next to a moment: the following one on a late side, the preceding one on an early side. */
export function stepNextTo(rank: Rank, moment: number): number | null {
  const step = moment % 2 === 1 ? (moment - 1) / 2 : moment / 2 - 1;
  return step >= 0 && step < rank.end ? step : null;
}

/** `before step 12` */
export function momentTitle(rank: Rank, moment: number): string {
  const position = moment >>> 1;
  if (moment % 2 === 0) return position === 0 ? "at the start" : `right after step ${count(position - 1)}`;
  if (rank.end === 0) return "in the snapshot";
  return position >= rank.end ? "at the end" : `before step ${count(position)}`;
}

/**
 * The position of a moment, named as on the command line: `before step 12`. Both sides of a position are the same unless
 * memory can change between them, which needs a program that begins there.
 */
export function positionTitle(rank: Rank, moment: number): string {
  return momentTitle(rank, sideOf(rank, moment));
}

/** The step of a position, named as `positionTitle` names it. */
export function stepOfPosition(rank: Rank, moment: number): number | null {
  return stepNextTo(rank, sideOf(rank, moment));
}

/** The late side of a position, unless memory can change between both sides. */
function sideOf(rank: Rank, moment: number): number {
  const position = moment >>> 1;
  const isInside = moment % 2 === 0 && position > 0 && !rank.isProgramStart(position);
  return isInside ? moment + 1 : moment;
}

/** `main · run 3`; `null` if the program is unknown. */
export function runTitle(rank: Rank, step: number): string | null {
  const [program, run] = [rank.program(step), rank.runNumber(step)];
  if (program === null) return null;
  return run === null ? program : `${program} · run ${count(run)}`;
}

/** The phase of a step; `null` if it is in none. */
export function phaseTitle(rank: Rank, step: number): string | null {
  const isIn = ({ first_step: first, end_step: end }: PhaseSummary) =>
    first !== null && end !== null && first <= step && step < end;
  return rank.summary.phases.find(isIn)?.name ?? null;
}

/** The operation of a step: its name, and its call stack or location if known. */
export function operationLines(rank: Rank, step: number): HTMLElement[] {
  const location = rank.opLoc(step);
  const lines = [h("div", { class: "mono" }, rank.opName(step))];
  const stack = stackElements(rank, rank.stackOfStep(step));
  if (stack.length > 0) return [...lines, ...stack];
  if (location) lines.push(h("div", { class: "where" }, shorten(location, LOCATION_LETTERS)));
  return lines;
}

/** The first lines of a tooltip. */
export function momentHead(rank: Rank, moment: number): HTMLElement[] {
  const step = stepNextTo(rank, moment);
  const run = step === null ? null : (runTitle(rank, step) ?? phaseTitle(rank, step));
  const title = h("div", {}, h("strong", {}, momentTitle(rank, moment)), run && ` · ${shorten(run, 48)}`);
  return step === null ? [title] : [title, ...operationLines(rank, step)];
}

/** A row of a tooltip: name, value and remark. */
export type Fact = [name: string, value: string, aside?: string];

export function factGrid(facts: readonly Fact[]): HTMLElement {
  const cells = facts.flatMap(([name, value, aside]) => [
    h("span", { class: "name" }, name),
    h("span", { class: "number" }, value),
    h("span", { class: "aside" }, aside ?? ""),
  ]);
  return h("div", { class: "facts" }, cells);
}

/** The state of a pool at a moment. */
export function poolFacts(rank: Rank, pool: Pool, moment: number): Fact[] {
  const [held, capacity] = [pool.heldAt(rank, moment), pool.capacity.valueAt(moment)];
  const isObserved = pool.isObserved(moment);
  const facts: Fact[] = [
    ["Allocated", size(held), Number.isNaN(held) ? "" : isObserved ? "measured" : "reconstructed"],
  ];
  const step = stepNextTo(rank, moment);
  if (step !== null) facts.push([moment % 2 === 1 ? "This step" : "That step", change(pool.effect[step])]);
  const reserved = pool.reserved?.valueAt(moment) ?? Number.NaN;
  if (!Number.isNaN(reserved)) {
    facts.push(["Reserved", size(reserved)]);
    if (reserved >= held) facts.push(["Unallocated", size(reserved - held), "reserved, not allocated"]);
  }
  if (!pool.reportsFree) return facts;
  if (isObserved) {
    facts.push(["Free", size(pool.free.valueAt(moment))]);
    facts.push(["Largest free", size(pool.largestFree.valueAt(moment)), "contiguous"]);
  } else {
    if (!Number.isNaN(capacity - held)) facts.push(["Free", size(capacity - held), "reconstructed"]);
    facts.push(["Largest free", "–", "not reported here"]);
  }
  return facts;
}
