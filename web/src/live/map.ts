// The treemap of a live set: rectangles to scale, grouped by class.

import { bankWords } from "../banks";
import { squarify } from "../charts/treemap";
import type { LiveSet, Pool, Rank } from "../data/report";
import { h } from "../dom";
import { count, size } from "../format";
import { fittingEnd, textWidth } from "../text-width";

/** The maximum number of rectangles per class; the smallest tensors share one. */
const MAX_TILES = 120;

/** The horizontal padding and border of a rectangle; see live.css. */
const TILE_PADDING = 13;
const boldWidth = (text: string): number => textWidth(text, "600", 12);

export interface MapContent {
  rank: Rank;
  pool: Pool;
  live: LiveSet;
  /** The unexplained bytes. */
  rest: number;
}

export function drawMap(
  map: HTMLElement,
  { rank, pool, live, rest }: MapContent,
  choose: (tensor: number) => void,
): void {
  const { perBank: sizes, class: classes } = rank.tensors;
  const { perBank } = bankWords(pool.extent);
  const byClass = rank.classes.map((name) => ({ name, tensors: [] as number[], bytes: 0 }));
  for (const tensor of live.tensors) {
    if (!(sizes[tensor] > 0)) continue;
    const group = byClass[classes[tensor]];
    group.tensors.push(tensor);
    group.bytes += sizes[tensor];
  }
  const groups = [...byClass, { name: "unexplained", tensors: [], bytes: rest }]
    .filter(({ bytes }) => bytes > 0)
    .sort((a, b) => b.bytes - a.bytes);
  const whole = { x: 0, y: 0, width: map.clientWidth, height: map.clientHeight };
  const boxes = squarify(
    groups.map((group) => group.bytes),
    whole,
  );
  const tiles: HTMLElement[] = [];
  for (const [index, box] of boxes.entries()) {
    const { name, tensors, bytes } = groups[index];
    const own = tensors.slice(0, tensors.length > MAX_TILES ? MAX_TILES - 1 : MAX_TILES);
    const others = tensors.slice(own.length);
    const weights = own.map((tensor) => sizes[tensor]);
    if (others.length > 0) weights.push(others.reduce((sum, tensor) => sum + sizes[tensor], 0));
    if (tensors.length === 0) weights.push(bytes);
    // The rectangle of the smallest tensors may not be the smallest; `squarify` needs descending order.
    const order = weights.map((_, at) => at).sort((a, b) => weights[b] - weights[a]);
    const inner = squarify(
      order.map((at) => weights[at]),
      box,
    );
    for (const [at, place] of inner.entries()) {
      const tensor = own[order[at]];
      const label =
        tensor !== undefined
          ? (rank.tensorName(tensor) ?? rank.madeIn(tensor) ?? rank.allocatedBy(tensor) ?? "unnamed")
          : tensors.length === 0
            ? "unexplained"
            : `${count(others.length)} smaller`;
      const shown = tensor === undefined ? label : fittingEnd(label, place.width - TILE_PADDING, boldWidth);
      const tile = tileAt(place, name, shown, weights[order[at]]);
      const type = tensor === undefined ? -1 : rank.tensors.type[tensor];
      const typed = type < 0 ? "" : `${rank.typeText(type)}\n`;
      tile.title = `${label}\n${typed}${size(weights[order[at]])}${perBank}, ${name}`;
      if (tensor !== undefined) {
        tile.dataset.tensor = String(tensor);
        tile.addEventListener("click", () => choose(tensor));
      }
      tiles.push(tile);
    }
  }
  map.replaceChildren(...tiles);
  const parts = groups.map((group) => `${group.name} ${size(group.bytes)}`).join(", ");
  map.setAttribute(
    "aria-label",
    `Live memory by class and tensor: ${parts || "none"}. The table below lists all tensors.`,
  );
}

function tileAt(
  box: { x: number; y: number; width: number; height: number },
  kind: string,
  label: string,
  bytes: number,
) {
  const tile = h("div", {
    class: `tile ${kind}`,
    style:
      `--tile: var(--class-${kind}); left: ${box.x}px; top: ${box.y}px; ` +
      `width: ${box.width}px; height: ${box.height}px`,
  });
  if (box.width > 46 && box.height > 20) tile.append(h("b", {}, label));
  if (box.width > 72 && box.height > 38) tile.append(size(bytes));
  return tile;
}

export function selectTiles(map: HTMLElement, tensors: Uint32Array): void {
  const selected = new Set(Array.from(tensors, String));
  for (const tile of map.querySelectorAll<HTMLElement>(".tile")) {
    tile.classList.toggle("selected", selected.has(tile.dataset.tensor ?? ""));
  }
}
