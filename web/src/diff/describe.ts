// A moment in words: the step of each input, and the memory of both.

import { type Fact, factGrid } from "../charts/moment-facts";
import { h } from "../dom";
import { change, count, shorten, size } from "../format";
import { type AlignedPool, type AlignedRank, otherSide, SIDES, type Side, type StepAt } from "./data";

const LOCATION_LETTERS = 72;

/** The place next to a moment: the following one on a late side, the preceding one on an early side. */
export function placeNextTo(rank: AlignedRank, moment: number): number | null {
  const place = moment % 2 === 1 ? (moment - 1) / 2 : moment / 2 - 1;
  return place >= 0 && place < rank.end ? place : null;
}

/** `before step 12`, `before step 12 / 14`: the steps of both inputs, if they differ. */
export function momentTitle(rank: AlignedRank, moment: number): string {
  const place = placeNextTo(rank, moment);
  if (place === null) return moment === 0 || rank.end === 0 ? "at the start" : "at the end";
  return `${moment % 2 === 1 ? "before" : "after"} step ${stepsTitle(rank, place)}`;
}

function stepsTitle(rank: AlignedRank, place: number): string {
  const { before, after } = rank.stepsAt(place);
  const texts = [before, after].map((at) => (at ? count(at.step) : "–"));
  return before && after && before.step === after.step ? texts[0] : texts.join(" / ");
}

/** The text of a tick: the step of each input. */
export function tickText(rank: AlignedRank, place: number): string {
  const inside = Math.min(Math.max(0, Math.round(place)), rank.end);
  const [before, after] = SIDES.map((side) => count(rank.stretches.stepsBefore(side, inside)));
  return before === after ? before : `${before}\n${after}`;
}

export function describe(rank: AlignedRank, pool: AlignedPool, moment: number): HTMLElement {
  const place = placeNextTo(rank, moment);
  const steps = place === null ? null : rank.stepsAt(place);
  const lines = steps && SIDES.map((side) => sideLine(rank, side, steps[side], place ?? 0));
  const [before, after] = SIDES.map((side) => pool.heldAt(side, moment));
  const difference = pool.difference?.valueAt(moment) ?? Number.NaN;
  const facts: Fact[] = [
    ["Before", size(before)],
    ["After", size(after)],
    ["Difference", change(difference)],
  ];
  const title = momentTitle(rank, moment);
  return h("div", {}, h("strong", {}, title), lines, factGrid(facts));
}

function sideLine(rank: AlignedRank, side: Side, at: StepAt | null, place: number): HTMLElement {
  const name = h("span", { class: `diff-side diff-side-${side}` }, side);
  if (!at) {
    const next = rank.stretches.stepsBefore(side, place);
    const where = next === 0 ? "before its first step" : `after its step ${count(next - 1)}`;
    return h("div", { class: "diff-step" }, name, h("span", { class: "where" }, `no such step, ${where}`));
  }
  const moved = at.movedTo !== null && `, which is step ${count(at.movedTo)} ${otherSide(side)}`;
  return h(
    "div",
    { class: "diff-step" },
    name,
    h(
      "span",
      {},
      `step ${count(at.step)}`,
      moved,
      h("div", { class: "mono" }, at.name ?? "unknown operation"),
      at.loc !== null && h("div", { class: "where" }, shorten(at.loc, LOCATION_LETTERS)),
    ),
  );
}
