// Growth: what every iteration of the program leaves behind.

import "./lists.css";
import { bankWords } from "../banks";
import type { Rank } from "../data/report";
import { className } from "../data/summary";
import { fill, h } from "../dom";
import { count, counted, sizeElement } from "../format";
import type { GrowthSummary, RankSummary, Survivor } from "../generated/answers";
import { operationText, stepLink } from "../moment";
import { type Heading, plainTable } from "../plain-table";
import { type Section, section } from "../section";
import type { Store } from "../state";

/** Whether the memory of a rank grows. Phases of training sessions have their own section. */
export function hasGrowth({ growth }: RankSummary): boolean {
  return growth?.title != null;
}

export function growthSection(store: Store): Section {
  return section(store, "growth", "Growth", ["rank"], (body) => {
    const facts = h("div", { class: "growth-facts" });
    const table = h("div", { class: "scroll-x" });
    const notes = h("div", { class: "growth-facts" });
    body.append(facts, table, notes);
    return ({ rank }) => {
      const { growth } = rank.summary;
      if (!growth?.title) {
        const text = growth?.statement.headline ?? "The growth of this rank is unknown.";
        fill(facts, h("p", { class: "note" }, text));
        fill(table);
        fill(notes);
        return;
      }
      fill(facts, h("p", {}, h("strong", {}, growth.title), "."));
      fill(table, survivorTable(store, rank, growth));
      const left = growth.survivor_count - growth.survivors.length;
      const rest = left > 0 ? [`… and ${counted(left, "more origin")}`] : [];
      const lines = [...rest, ...growth.notes, ...growth.caveats];
      fill(
        notes,
        lines.map((line) => h("p", { class: "note" }, line)),
      );
    };
  });
}

function survivorTable(store: Store, rank: Rank, growth: GrowthSummary): HTMLElement {
  const { suffix } = bankWords(rank.summary.pools[growth.pool ?? ""]?.extent ?? "device");
  const headings: Heading[] = [
    ["Allocated by", false],
    ["Module", false],
    ["Class", false],
    [`Size${suffix} per ${growth.unit}`, true],
    [`Size${suffix} added`, true],
    ["Tensors", true],
    ["Last allocated", true],
    ["Kept alive by", false],
  ];
  const { table, rows } = plainTable(
    headings,
    growth.survivors.map((survivor) => cells(store, survivor)),
  );
  for (const [at, row] of rows.entries()) row.dataset.survivor = growth.survivors[at].kind;
  return table;
}

function cells(store: Store, survivor: Survivor): HTMLTableCellElement[] {
  const { module, tensors, step, held_by: held, held_part: part } = survivor;
  const number = (...children: (Node | string)[]) => h("td", { class: "number nowrap" }, ...children);
  return [
    h("td", { class: "op" }, operationText(survivor.allocated_by, survivor.loc)),
    h("td", { class: "op" }, module ?? ""),
    h("td", {}, survivor.class === null ? "" : className(survivor.class)),
    number(sizeElement(survivor.per_iteration_per_bank)),
    number(sizeElement(survivor.per_bank)),
    number(tensors === null ? "" : count(tensors)),
    number(step === null ? "" : stepLink(store, step)),
    h("td", { class: "op" }, held === null ? "" : [part, held].filter((text) => text !== null).join(": ")),
  ];
}
