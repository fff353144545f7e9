// The map of a core's L1: address 0 at the bottom, tensors at the top.

import type { Rank } from "../data/report";
import { h } from "../dom";
import { count, sizeIn } from "../format";
import type { L1Outline } from "../generated/answers";
import { fittingEnd, textWidth } from "../text-width";
import { type Scale, scaleOf } from "./scale";
import { isPlaced, type Segment } from "./segments";
import { describe, partName, tensorTitle } from "./words";

/** The minimum height of a segment, in pixels. */
const MIN_SEGMENT = 6;
/** The height of the map: more if it has many segments. */
const [MIN_HEIGHT, MAX_HEIGHT, PER_SEGMENT] = [420, 900, 10];
/** The minimum distance between two addresses, in pixels. */
const TICK_DISTANCE = 15;
/** The minimum heights of segments with a label in one line, and in two. */
const [ONE_LINE, TWO_LINES] = [16, 34];
/** The horizontal padding and border of a segment; see l1.css. */
const PADDING = 13;

export interface MapContent {
  rank: Rank;
  outline: L1Outline;
  segments: readonly Segment[];
  /** A remark in the headroom, such as "program buffers unknown". */
  remark: string | null;
  /** The description for screen readers. */
  label: string;
}

/** Draws the map. Clicking a segment calls `choose` with its index. */
export function drawMap(map: HTMLElement, content: MapContent, choose: (index: number) => void): void {
  const { rank, outline, segments, remark, label } = content;
  const placed = segments.filter(isPlaced);
  const height = Math.min(MAX_HEIGHT, Math.max(MIN_HEIGHT, placed.length * PER_SEGMENT));
  const scale = scaleOf(placed, outline.size, height, MIN_SEGMENT);
  const bar = h("div", { class: "l1-bar" });
  // If the program's buffers overlap with tensors, they are drawn side by side.
  bar.classList.toggle(
    "l1-bar-split",
    placed.some(({ part }) => part === "overlap"),
  );
  for (const [index, segment] of segments.entries()) {
    if (isPlaced(segment)) bar.append(blockOf(rank, segment, index, scale, outline.size, remark, choose));
  }
  if (scale.high > outline.size) {
    bar.append(h("div", { class: "l1-limit", style: `bottom: ${scale.up(outline.size)}px` }, "end of L1"));
  }
  map.setAttribute("role", "img");
  map.setAttribute("aria-label", label);
  map.style.height = `${height}px`;
  map.replaceChildren(ticks(placed, outline, scale), bar);
  fitLabels(bar);
}

function blockOf(
  rank: Rank,
  segment: Segment,
  index: number,
  scale: Scale,
  whole: number,
  remark: string | null,
  choose: (index: number) => void,
): HTMLElement {
  const [bottom, top] = [scale.up(segment.start), scale.up(segment.end)];
  const height = top - bottom;
  const classes = ["l1-segment", `l1-${segment.part}`];
  if (segment.isEmpty) classes.push("l1-empty");
  if (segment.isBorrowed) classes.push("l1-borrowed");
  if (height < TWO_LINES) classes.push("l1-short");
  const block = h("div", {
    class: classes.join(" "),
    style: `bottom: ${bottom}px; height: ${height}px`,
    title: describe(rank, segment, whole),
    "data-segment": index,
    onclick: () => choose(index),
  });
  if (height < ONE_LINE || segment.isBorrowed) return block;
  const bytes = sizeIn(segment.end - segment.start, whole);
  if (segment.part === "overlap") {
    if (height > 2 * ONE_LINE) block.append(h("span", {}, `overlap ${bytes}`));
    return block;
  }
  const name = segment.part === "tensor" ? tensorTitle(rank, segment.tensor!.tensor) : partName(segment);
  const shown = segment.part === "headroom" && remark !== null ? `≤ ${bytes}` : bytes;
  block.append(h("b", { "data-name": name }, name), height < TWO_LINES ? " " : h("br"), h("span", {}, shown));
  if (segment.part === "headroom" && remark !== null && height > 3 * ONE_LINE) {
    block.append(h("em", {}, remark));
  }
  return block;
}

/** Shortens names that don't fit, keeping their ends. */
function fitLabels(bar: HTMLElement): void {
  for (const name of bar.querySelectorAll<HTMLElement>("b[data-name]")) {
    const block = name.parentElement!;
    const isOneLine = block.querySelector("br") === null;
    const bytes = block.querySelector("span")?.textContent ?? "";
    const room = block.clientWidth - PADDING - (isOneLine ? textWidth(` ${bytes}`, "400", 12) + 6 : 0);
    name.textContent = fittingEnd(name.dataset.name ?? "", room, (text) => textWidth(text, "600", 12));
  }
}

/** The addresses at the ends of segments. Those of the layout come first, others if there is room. */
function ticks(placed: readonly Segment[], outline: L1Outline, scale: Scale): HTMLElement {
  const { size: end, small, reserved } = outline;
  const headroom = placed.filter(({ part }) => part === "headroom" || part === "overlap");
  const wanted = [
    0,
    scale.high,
    end,
    ...headroom.flatMap(({ start, end }) => [start, end]),
    reserved,
    end - small,
    ...placed.flatMap(({ start, end }) => [start, end]),
  ];
  const used: number[] = [];
  const shown = [...new Set(wanted)].filter((address) => {
    const up = scale.up(address);
    if (used.some((other) => Math.abs(other - up) < TICK_DISTANCE)) return false;
    used.push(up);
    return true;
  });
  return h(
    "div",
    { class: "l1-ticks", "aria-hidden": "true" },
    shown.map((address) =>
      h("span", { style: `bottom: ${scale.up(address)}px`, title: sizeIn(address, end) }, count(address)),
    ),
  );
}

/** Outlines a segment; `null` for none. */
export function selectSegment(map: HTMLElement, index: number | null): void {
  for (const block of map.querySelectorAll<HTMLElement>(".l1-segment")) {
    block.classList.toggle("selected", block.dataset.segment === String(index));
  }
}
