// The figures of a core's L1: its parts at the peak, the lowest headroom, and what they don't include.

import { h } from "../dom";
import { count, counted, partElements, percent, sizeElementIn, sizeIn, UNKNOWN } from "../format";
import type { L1Moment, L1Summary } from "../generated/answers";
import { levelClass } from "../level";
import { operationText, stepLink } from "../moment";
import type { Store } from "../state";

/** The CSS class of a part of the summary. */
const CLASSES: Record<string, string> = {
  reserved: "l1-reserved",
  "circular buffers": "l1-circular",
  "dataflow buffers": "l1-dataflow",
  scratchpads: "l1-scratchpad",
  "program buffers": "l1-program",
  tensors: "l1-tensor",
  L1_SMALL: "l1-small",
};

export function figures(store: Store, l1: L1Summary): (HTMLElement | null)[] {
  const cards = [peakCard(store, l1), headroomCard(store, l1), programsCard(l1)];
  const note = l1.note && h("p", { class: "note", "data-fact": "l1-note" }, l1.note);
  return [h("div", { class: "cards l1-figures" }, cards), note || null];
}

/** `while step 28 runs, ttnn.matmul` */
function whileText(store: Store, { step, op, loc }: L1Moment): (Node | string)[] {
  return ["while ", stepLink(store, step), " runs ", operationText(op, loc)];
}

function peakCard(store: Store, l1: L1Summary): HTMLElement {
  const { peak, size_per_core: whole, level, peak_is_lower_bound: isLowerBound } = l1;
  const bytes = peak?.bytes ?? null;
  const isKnown = bytes !== null && whole !== null;
  return h(
    "article",
    { class: `card l1-peak ${levelClass(level)}` },
    h(
      "h3",
      {},
      "Peak",
      level && isKnown && h("span", { class: "level" }, `${percent(bytes, whole)} · ${level}`),
    ),
    h(
      "div",
      { class: "big", "data-fact": "l1-peak" },
      isLowerBound && bytes !== null && h("small", {}, "at least "),
      isKnown ? partElements(bytes, whole) : sizeElementIn(bytes, whole),
      h("small", {}, bytes === null ? "" : " per core"),
    ),
    peak && partsOf(peak, whole),
    peak && h("p", {}, ...whileText(store, peak)),
  );
}

/** A part of L1 with its CSS class. */
interface Part {
  name: string;
  bytes: number | null;
  kind: string;
}

/** The parts as a stacked bar with a legend; without the size of L1, only the legend. */
function partsOf({ parts, bytes }: L1Moment, whole: number | null): HTMLElement {
  const all: Part[] = parts.map(({ name, bytes }) => ({ name, bytes, kind: CLASSES[name] ?? "" }));
  const known = parts.reduce((sum, part) => sum + (part.bytes ?? 0), 0);
  // Gaps between the program's buffers can't be used either.
  if (bytes !== null && bytes > known) all.push({ name: "gaps", bytes: bytes - known, kind: "l1-gap" });
  if (bytes !== null && whole !== null && bytes < whole) {
    const isComplete = parts.every((part) => part.bytes !== null);
    const name = isComplete ? "free" : "free or program buffers";
    all.push({ name, bytes: whole - bytes, kind: "l1-headroom" });
  }
  const legend = all.map(({ name, bytes, kind }) =>
    h(
      "li",
      { "data-part": name },
      h("span", { class: `swatch ${kind}` }),
      `${name} `,
      sizeElementIn(bytes, whole),
    ),
  );
  return h(
    "div",
    { class: "l1-parts" },
    whole !== null && bytes !== null && stackedBar(all, bytes, whole),
    h("ul", { class: "legend" }, legend),
  );
}

/** The bar is as long as L1, or as everything that does not fit into it; then a line marks the end of L1. */
function stackedBar(parts: Part[], bytes: number, whole: number): HTMLElement {
  const text = ({ name, bytes }: Part) => `${name} ${bytes === null ? UNKNOWN : sizeIn(bytes, whole)}`;
  const isTooLong = bytes > whole;
  return h(
    "div",
    { class: "l1-stack", role: "img", "aria-label": `Parts of L1: ${parts.map(text).join(", ")}` },
    parts
      .filter(({ bytes }) => bytes !== null)
      .map((part) => h("span", { class: part.kind, style: `flex-grow: ${part.bytes}`, title: text(part) })),
    isTooLong && h("i", { class: "l1-over", title: "end of L1", style: `left: ${(whole / bytes) * 100}%` }),
  );
}

function headroomCard(store: Store, l1: L1Summary): HTMLElement {
  const { lowest_headroom: lowest, unknown_programs: unknown, size_per_core: whole } = l1;
  const bytes = lowest?.headroom ?? null;
  const isTooLittle = bytes !== null && bytes < 0;
  const isBound = bytes !== null && !isTooLittle && (unknown > 0 || lowest?.headroom_is_upper_bound);
  const meaning = isTooLittle
    ? "The program's buffers overlap with tensors: it does not fit."
    : "Free between the program's buffers and the lowest tensor.";
  return h(
    "article",
    { class: `card ${isTooLittle ? "bad" : ""}` },
    h("h3", {}, "Lowest headroom", isTooLittle && h("span", { class: "level" }, "does not fit")),
    h(
      "div",
      { class: "big", "data-fact": "l1-headroom" },
      isBound && h("small", {}, "at most "),
      sizeElementIn(bytes, whole),
      h("small", {}, bytes === null ? "" : " per core"),
    ),
    bytes !== null && h("p", {}, meaning),
    lowest && h("p", {}, ...whileText(store, lowest)),
  );
}

function programsCard(l1: L1Summary): HTMLElement {
  const { programs, unknown_programs: unknown, grid, reserved_per_core: reserved } = l1;
  const { small_region_per_core: small } = l1;
  return h(
    "article",
    { class: "card" },
    h("h3", {}, "Programs"),
    h("div", { class: "big" }, h("data", { value: programs }, count(programs))),
    unknown > 0 && h("p", {}, `buffers of ${counted(unknown, "program")} unknown`),
    grid && h("p", {}, `${count(grid[0] * grid[1])} cores (${grid[0]} × ${grid[1]})`),
    reserved !== null && h("p", {}, sizeElementIn(reserved, l1.size_per_core), " reserved by the runtime"),
    small !== null &&
      small > 0 &&
      h("p", {}, sizeElementIn(small, l1.size_per_core), " for small buffers (L1_SMALL)"),
  );
}
