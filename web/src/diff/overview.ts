// The verdict, the peak of each pool in both inputs, and the classes of tensors at the peaks.

import { bankWords } from "../banks";
import { className } from "../data/summary";
import { h } from "../dom";
import { changeElement, count, sizeElement } from "../format";
import type { Diff, Extent, PoolDiff, RankDiff } from "../generated/answers";
import { plainTable } from "../plain-table";
import type { AlignedPool, AlignedRank } from "./data";

const number = (...content: (Node | string)[]) => h("td", { class: "number" }, ...content);

/** The verdict and the number of operations. */
export function verdict(diff: Diff, rank: RankDiff): HTMLElement {
  const only = (labels: string[], which: string) =>
    labels.length > 0 && h("p", { class: "note" }, `Only the ${which} input has rank ${labels.join(", ")}.`);
  return h(
    "div",
    {},
    h("p", { class: isWorse(rank) ? "diff-verdict diff-worse" : "diff-verdict" }, rank.verdict),
    rank.operations.before + rank.operations.after > 0 && h("p", { class: "note" }, operationsText(rank)),
    only(diff.only_before, "first"),
    only(diff.only_after, "second"),
  );
}

/** Whether a peak grew, or only the second input ran out of memory: its peak before the error may be lower. */
export function isWorse({ pools, out_of_memory: error }: RankDiff): boolean {
  const grows = Object.values(pools).some(({ change_per_bank: change }) => (change ?? 0) > 0);
  return grows || (error.before === null && error.after !== null);
}

/** `Operations: 55 → 57 (2 added)` */
export function operationsText({ operations }: RankDiff): string {
  const { before, after, added, removed, reordered } = operations;
  const parts = [
    [added, "added"],
    [removed, "removed"],
    [reordered, "reordered"],
  ] as const;
  const changed = parts.filter(([many]) => many > 0).map(([many, what]) => `${count(many)} ${what}`);
  const numbers = before === after ? count(before) : `${count(before)} → ${count(after)}`;
  return `Operations: ${numbers} (${changed.length > 0 ? changed.join(", ") : "no difference"})`;
}

/** A share with a decimal, as in the verdict. A part is never shown as 100%. */
export function exactPercent(part: number, whole: number): string {
  const share = Math.round((part / whole) * 1000);
  return `${((part < whole ? Math.min(share, 999) : share) / 10).toFixed(1)}%`;
}

/** The peaks of all used pools. The button of a pool shows it in the chart; sessions of phases have no curve. */
export function poolsTable(rank: AlignedRank, shown: number, show: (pool: number) => void): HTMLElement {
  const rows = Object.entries(rank.diff.pools).flatMap(([name, diff]) => {
    const index = rank.pools.findIndex((pool) => pool.name === name);
    const pressed = { type: "button", "aria-pressed": String(index === shown), onclick: () => show(index) };
    const label = index < 0 ? name : h("button", pressed, name);
    return isUsed(diff) ? [poolCells(label, rank.pools[index]?.extent ?? "device", diff)] : [];
  });
  const { table } = plainTable(
    [
      ["Peak", false],
      ["Before", true],
      ["After", true],
      ["Change", true],
      ["Share", true],
      ["Before: at step", true],
      ["After: at step", true],
    ],
    rows,
  );
  return h("div", { class: "scroll-x" }, table);
}

/** Whether an input ever allocated memory in a pool. */
function isUsed({ before_per_bank: before, after_per_bank: after }: PoolDiff): boolean {
  return before !== 0 || after !== 0;
}

function poolCells(label: Node | string, extent: Extent, diff: PoolDiff): HTMLTableCellElement[] {
  const { before_per_bank: before, change_per_bank: change } = diff;
  const step = (position: number | null) => number(position === null ? "–" : count(position));
  const share = change && before ? `${change < 0 ? "−" : "+"}${exactPercent(Math.abs(change), before)}` : "–";
  return [
    h("td", { class: "nowrap" }, label, bankWords(extent).perBank),
    number(sizeElement(before)),
    number(sizeElement(diff.after_per_bank)),
    number(change === 0 ? "–" : changeElement(change)),
    number(share),
    step(diff.before_step),
    step(diff.after_step),
  ];
}

/** The classes of tensors at the peaks of a pool. */
export function classesTable(rank: RankDiff, pool: AlignedPool): HTMLElement {
  const classes = rank.pools[pool.name]?.by_class ?? [];
  if (classes.length === 0)
    return h("p", { class: "note" }, `No tensors are known at the peaks of ${pool.name}.`);
  const rows = classes.map(({ class: name, before_per_bank: before, after_per_bank: after }) => [
    h("td", {}, h("span", { class: "swatch", style: `--tile: var(--class-${name})` }), className(name)),
    number(sizeElement(before)),
    number(sizeElement(after)),
    number(after === before ? "–" : changeElement(after - before)),
  ]);
  const { table } = plainTable(
    [
      ["Class", false],
      ["Before", true],
      ["After", true],
      ["Change", true],
    ],
    rows,
  );
  return h("div", { class: "scroll-x" }, table);
}
