// Call stacks as text: a few lines in a tooltip, all lines in a list.

import type { Rank } from "../data/report";
import type { Stacks } from "../data/stacks";
import { h } from "../dom";
import { count, shorten } from "../format";

/** The number of lines in a tooltip. */
const MAX_LINES = 5;
const LINE_LETTERS = 64;
/** The length of a title, which the browser shows as a tooltip. */
const TITLE_LETTERS = 2000;

/** The lines of a stack for a tooltip: those of the user's program, or the innermost ones if there are none. */
export function shortStack(stacks: Stacks, stack: number): { lines: number[]; others: number } {
  const all = stacks.framesOf(stack);
  const own = all.filter((frame) => !stacks.isLibrary(frame));
  const lines = (own.length > 0 ? own : all).slice(0, MAX_LINES);
  return { lines, others: all.length - lines.length };
}

/** A stack in a tooltip; nothing if it is unknown. */
export function stackElements(rank: Rank, stack: number): HTMLElement[] {
  const { stacks } = rank;
  if (!stacks || stack < 0) return [];
  const { lines, others } = shortStack(stacks, stack);
  const line = (frame: number) =>
    h("div", { class: "where" }, shorten(stacks.shortName(frame), LINE_LETTERS));
  const more =
    others > 0 && h("div", { class: "where" }, `… ${count(others)} more ${others === 1 ? "line" : "lines"}`);
  return [h("div", { class: "stack-lines" }, lines.map(line), more)];
}

/** All lines of a stack, innermost first, for a title. */
export function stackTitle(stacks: Stacks, stack: number): string {
  const lines = stacks.framesOf(stack).map((frame) => stacks.fullName(frame));
  const text = lines.join("\n");
  return text.length <= TITLE_LETTERS ? text : `${text.slice(0, TITLE_LETTERS - 1)}…`;
}

/** All lines of a stack, innermost first. Lines of libraries are paler. */
export function stackList(stacks: Stacks, stack: number): HTMLElement {
  const item = (frame: number) => {
    const place = stacks.placeOf(frame);
    return h(
      "li",
      { class: stacks.isLibrary(frame) ? "library" : "program" },
      h("span", { class: "mono" }, stacks.functionOf(frame)),
      place !== null && h("span", { class: "where" }, ` ${place}`),
    );
  };
  return h("ol", { class: "stack-list", tabindex: 0 }, stacks.framesOf(stack).map(item));
}
