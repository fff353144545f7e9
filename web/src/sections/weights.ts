// The weights by size, with a flag for those kept twice.

import "./lists.css";
import { fill, h } from "../dom";
import { count, counted, percent, size, sizeElement } from "../format";
import { type Section, section } from "../section";
import type { Store } from "../state";
import { Table } from "../table";
import { longestOf } from "../text-width";

type Weight = ReturnType<import("../data/report").Rank["weights"]>[number];

export function weightsSection(store: Store): Section {
  return section(store, "weights", "Weights", ["rank"], (body) => {
    const note = h("p", { class: "note" });
    const box = h("div", {});
    body.append(note, box);
    return ({ rank }) => {
      const weights = rank.weights();
      fill(note, noteOf(rank.summary.weights, weights.filter((weight) => weight.keptTwice).length));
      fill(box, weights.length > 0 && tableOf(weights));
    };
  });
}

function tableOf(weights: Weight[]): HTMLElement {
  const table = new Table({
    caption: "Weights by size",
    height: "340px",
    hidesEmptyColumns: true,
    columns: [
      {
        key: "name",
        title: "Name",
        width: "minmax(180px, 2fr)",
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
        width: "124px",
        cell: (row) => (weights[row].keptTwice ? h("span", { class: "badge" }, "kept twice") : ""),
        sort: (row) => Number(weights[row].keptTwice),
        has: (row) => weights[row].keptTwice,
      },
    ],
  });
  table.show(Uint32Array.from(weights.keys()));
  return table.element;
}

function noteOf(
  summary: { count: number; bytes: number; kept_twice_bytes: number | null } | null,
  twice: number,
): (Node | string)[] {
  if (!summary)
    return ["The weights are unknown: the log has no graphs. To log them, set TTXLA_LOGGER_LEVEL=DEBUG."];
  if (summary.count === 0) return ["The graphs declare no weights."];
  const all = [`${counted(summary.count, "weight")}, `, sizeElement(summary.bytes), " of elements."];
  if (!summary.kept_twice_bytes) return all;
  return [
    ...all,
    ` ${count(twice)} of them (`,
    sizeElement(summary.kept_twice_bytes),
    `, ${percent(summary.kept_twice_bytes, summary.bytes)}) are kept twice at the DRAM peak: the original and a const-evaluated ` +
      `form. Freeing the originals would save up to ${size(summary.kept_twice_bytes)} of elements.`,
  ];
}
