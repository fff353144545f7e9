// The treemap of a live set: rectangles to scale, grouped by class.

import { bankWords } from "../banks";
import { squarify } from "../charts/treemap";
import type { LiveSet, Pool, Rank } from "../data/report";
import { h } from "../dom";
import { count, size } from "../format";

/** The maximum number of rectangles per class; the smallest tensors share one. */
const MAX_TILES = 120;

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
  const groups = rank.classes
    .map((name, index) => ({
      name,
      tensors: [...live.tensors].filter((tensor) => classes[tensor] === index),
    }))
    .map((group) => ({ ...group, tensors: group.tensors.filter((tensor) => sizes[tensor] > 0) }))
    .map((group) => ({ ...group, bytes: group.tensors.reduce((sum, tensor) => sum + sizes[tensor], 0) }))
    .concat(rest > 0 ? [{ name: "unexplained", tensors: [], bytes: rest }] : [])
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
          ? (rank.tensorName(tensor) ?? rank.allocatedBy(tensor) ?? "unnamed")
          : tensors.length === 0
            ? "unexplained"
            : `${count(others.length)} smaller`;
      const tile = tileAt(place, name, label, weights[order[at]]);
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
  if (box.width > 46 && box.height > 20) tile.append(h("b", {}, label.slice(0, 200)));
  if (box.width > 60 && box.height > 38) tile.append(size(bytes));
  return tile;
}

export function selectTile(map: HTMLElement, tensor: number): void {
  for (const tile of map.querySelectorAll<HTMLElement>(".tile")) {
    tile.classList.toggle("selected", tile.dataset.tensor === String(tensor));
  }
}
