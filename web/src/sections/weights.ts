// The weights by size, those kept twice flagged.

import "./lists.css";
import { h } from "../dom";
import { count, counted, percent, size, sizeElement } from "../format";
import { type Section, section } from "../section";
import type { Store } from "../state";
import { Table } from "../table";

type Weight = ReturnType<import("../data/report").Rank["weights"]>[number];

export function weightsSection(store: Store): Section {
  return section(store, "weights", "Weights", ["rank"], (body) => {
    const note = h("p", { class: "note" });
    let weights: Weight[] = [];
    const table = new Table({
      caption: "Weights by size",
      height: "340px",
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
          width: "minmax(130px, 1fr)",
          cell: (row) => weights[row].type,
          sort: (row) => weights[row].type,
        },
        {
          key: "bytes",
          title: "Elements",
          number: true,
          width: "100px",
          cell: (row) => sizeElement(weights[row].bytes),
          sort: (row) => weights[row].bytes,
        },
        {
          key: "kept_twice",
          title: "On the device",
          width: "110px",
          cell: (row) => (weights[row].keptTwice ? h("span", { class: "badge" }, "kept twice") : ""),
          sort: (row) => Number(weights[row].keptTwice),
        },
      ],
    });
    body.append(note, table.element);
    return ({ rank }) => {
      weights = rank.weights();
      const summary = rank.summary.weights;
      table.element.hidden = weights.length === 0;
      note.replaceChildren(...noteOf(summary, weights.filter((weight) => weight.keptTwice).length));
      table.show(Uint32Array.from(weights.keys()));
    };
  });
}

function noteOf(
  summary: { count: number; bytes: number; kept_twice_bytes: number | null } | null,
  twice: number,
): (Node | string)[] {
  if (!summary)
    return [
      "What is a weight is not known: the log prints no graphs. They come with the compiler's DEBUG output.",
    ];
  if (summary.count === 0) return ["The graphs declare no weights."];
  const all = [`${counted(summary.count, "weight")}, `, sizeElement(summary.bytes), " of elements."];
  if (!summary.kept_twice_bytes) return all;
  return [
    ...all,
    ` ${count(twice)} of them (`,
    sizeElement(summary.kept_twice_bytes),
    `, ${percent(summary.kept_twice_bytes, summary.bytes)}) are on the device twice at the DRAM peak: as given, and as a program ` +
      `prepared them. Freeing the originals would save up to ${size(summary.kept_twice_bytes)} of elements.`,
  ];
}
