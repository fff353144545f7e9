// The weights by size, with a flag for those stored twice.

import "./lists.css";
import { fill, h } from "../dom";
import { count, counted, percent, size, sizeElement } from "../format";
import { type Section, section } from "../section";
import type { Store } from "../state";
import { Table } from "../table";
import { longestOf, textWidth } from "../text-width";

/** The widths in pixels of the other columns and all paddings, and of the badge among them. */
const WIDTH_OF_NUMBERS = 260;
const WIDTH_OF_BADGE = 124;
/** A table that needs more is not placed next to another section. */
const MAX_HALF = 600;

type Weight = ReturnType<import("../data/report").Rank["weights"]>[number];

export function weightsSection(store: Store): Section {
  return section(store, "weights", "Weights", ["rank"], (body) => {
    const note = h("p", { class: "note" });
    const box = h("div", {});
    body.append(note, box);
    return ({ rank }) => {
      const weights = rank.weights();
      fill(note, noteOf(rank.summary.weights, weights.filter((weight) => weight.keptTwice).length));
      body.parentElement?.classList.toggle("wide", widthOf(weights) > MAX_HALF);
      fill(box, weights.length > 0 && tableOf(weights));
    };
  });
}

/** The width that the table needs to show all names and shapes. */
function widthOf(weights: Weight[]): number {
  const [name, shape] = [weights.map(({ name }) => name), weights.map(({ type }) => type)].map(longestOf);
  const twice = weights.some(({ keptTwice }) => keptTwice);
  return textWidth(name) + textWidth(shape) + (twice ? WIDTH_OF_NUMBERS : WIDTH_OF_NUMBERS - WIDTH_OF_BADGE);
}

function tableOf(weights: Weight[]): HTMLElement {
  const rows = Uint32Array.from(weights.keys());
  const table = new Table({
    caption: "Weights by size",
    height: "340px",
    decidedBy: rows,
    columns: [
      {
        key: "name",
        title: "Name",
        fit: { longest: longestOf(weights.map(({ name }) => name)), min: 240 },
        cell: (row) => weights[row].name,
        sort: (row) => weights[row].name,
      },
      {
        key: "type",
        title: "Shape",
        fit: { longest: longestOf(weights.map(({ type }) => type)), min: 320, max: 480 },
        cell: (row) => weights[row].type,
        sort: (row) => weights[row].type,
      },
      {
        key: "bytes",
        title: "Data size",
        help: "Size of the weight's elements",
        number: true,
        width: "100px",
        cell: (row) => sizeElement(weights[row].bytes),
        sort: (row) => weights[row].bytes,
      },
      {
        key: "kept_twice",
        title: "On the device",
        width: `${WIDTH_OF_BADGE}px`,
        cell: (row) => (weights[row].keptTwice ? h("span", { class: "badge" }, "stored twice") : ""),
        sort: (row) => Number(weights[row].keptTwice),
        has: (row) => weights[row].keptTwice,
      },
    ],
  });
  table.show(rows);
  return table.element;
}

function noteOf(
  summary: { count: number; bytes: number; kept_twice_bytes: number | null } | null,
  twice: number,
): (Node | string)[] {
  if (!summary)
    return ["The weights are unknown: the log has no graphs. To log them, set TTXLA_LOGGER_LEVEL=DEBUG."];
  if (summary.count === 0) return ["The graphs declare no weights."];
  const all = [
    `${counted(summary.count, "declared weight")}, `,
    sizeElement(summary.bytes),
    " without padding.",
  ];
  if (!summary.kept_twice_bytes) return all;
  return [
    ...all,
    ` ${count(twice)} of them (`,
    sizeElement(summary.kept_twice_bytes),
    `, ${percent(summary.kept_twice_bytes, summary.bytes)}) are stored twice at the DRAM peak: as the original and ` +
      `as a const-eval result. Freeing the originals saves up to ${size(summary.kept_twice_bytes)} without padding.`,
  ];
}
