// All ranks side by side on the same scale, to show imbalance.

import "./ranks.css";
import { bankWords } from "../banks";
import { colorsNow, translucent } from "../charts/colors";
import type { Rank } from "../data/report";
import { rankTitle } from "../data/summary";
import { fill, h } from "../dom";
import { percent, size, sizeElement } from "../format";
import { poolTabs } from "../moment";
import { type Section, section } from "../section";
import type { Store } from "../state";

/** The maximum number of curves. */
const MAX_CURVES = 256;

export function ranksSection(store: Store, choose: (rank: number) => void): Section {
  return section(store, "ranks", "Ranks", ["rank", "pool", "theme"], (body, head) => {
    const tabs = poolTabs(store, "Ranks");
    const note = h("p", { class: "note" });
    const tiles = h("div", { class: "ranks" });
    head.append(tabs.element);
    body.append(note, tiles);
    return (state) => {
      tabs.show(state);
      const { report } = state.rank;
      const of = state.rank.pools[state.pool];
      if (of === undefined) return;
      const pool = of.name;
      fill(
        note,
        imbalance(
          report.summary.ranks.map((rank) => rank.pools[pool]?.peak_per_bank ?? null),
          pool,
          bankWords(of.extent).perBank,
        ),
      );
      const shown = Math.min(report.rankCount, MAX_CURVES);
      fill(
        tiles,
        Array.from({ length: shown }, (_, index) => {
          const canvas = h("canvas", {});
          const summary = report.summary.ranks[index];
          void report.rank(index).then((rank) => draw(canvas, rank, pool, scale(report.summary.ranks, pool)));
          return h(
            "button",
            {
              type: "button",
              class: "rank-tile",
              "aria-pressed": String(state.rank.index === index),
              onclick: () => choose(index),
            },
            h("span", { class: "name" }, rankTitle(summary, index)),
            canvas,
            h("span", { class: "number" }, sizeElement(summary.pools[pool]?.peak_per_bank ?? null)),
          );
        }),
      );
    };
  });
}

function scale(
  ranks: { pools: Record<string, { peak_per_bank: number | null; capacity_per_bank: number | null }> }[],
  pool: string,
): number {
  return Math.max(1, ...ranks.map((rank) => rank.pools[pool]?.peak_per_bank ?? 0));
}

/** Describes the difference between the ranks. */
function imbalance(peaks: (number | null)[], pool: string, perBank: string): (Node | string)[] {
  const known = peaks.filter((peak) => peak !== null);
  if (known.length < 2) return [`Fewer than two ranks have ${pool} data.`];
  const [low, high] = [Math.min(...known), Math.max(...known)];
  if (low === high) return [`All ranks have the same ${pool} peak: ${size(high)}${perBank}.`];
  return [
    `${pool} peaks are between `,
    sizeElement(low),
    " and ",
    sizeElement(high),
    `${perBank}${low > 0 ? `; the highest is ${percent(high - low, low)} above the lowest` : ""}. All curves have the same scale.`,
  ];
}

/** Draws the highest use in each pixel, as an area. */
function draw(canvas: HTMLCanvasElement, rank: Rank, name: string, top: number): void {
  const pool = rank.pools.find((pool) => pool.name === name);
  const context = canvas.getContext("2d");
  const ratio = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth * ratio, canvas.clientHeight * ratio];
  if (!pool || !context || width === 0) return;
  canvas.width = width;
  canvas.height = height;
  const color = colorsNow().get("allocated");
  const { at, value } = pool.held;
  const last = rank.end * 2 + 1;
  context.beginPath();
  context.moveTo(0, height);
  let index = -1;
  for (let x = 0; x < width; x++) {
    const until = ((x + 1) / width) * last;
    let highest = index >= 0 ? value[index] : 0;
    while (index + 1 < at.length && at[index + 1] <= until) highest = Math.max(highest, value[++index]);
    const y = height - (highest / top) * (height - 2 * ratio);
    context.lineTo(x, y);
    context.lineTo(x + 1, y);
  }
  context.lineTo(width, height);
  context.closePath();
  context.fillStyle = translucent(color, 0.25);
  context.fill();
  context.strokeStyle = color;
  context.lineWidth = ratio;
  context.stroke();
}
