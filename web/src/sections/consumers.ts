// The largest net increases; identical steps share a row.

import "./lists.css";
import { bankWords } from "../banks";
import { momentBefore, type Pool, type Rank } from "../data/report";
import { fill, h } from "../dom";
import { change, changeElement, count, sizeElement } from "../format";
import { increasesOf, type Repeated, stepsText } from "../increases";
import { jumpTo } from "../jump";
import { operationText, poolTabs, stepLink } from "../moment";
import { type Heading, plainTable } from "../plain-table";
import { type Section, section } from "../section";
import type { Store } from "../state";

export function consumersSection(store: Store): Section {
  return section(store, "consumers", "Largest increases", ["rank", "pool", "run"], (body, head) => {
    const tabs = poolTabs(store, "Largest increases");
    const note = h("p", { class: "note" });
    const table = h("div", { class: "scroll-x" });
    head.append(tabs.element);
    body.append(note, table);
    return (state) => {
      const { rank, run } = state;
      tabs.show(state);
      const pool = rank.pools[state.pool];
      const found = pool ? increasesOf(rank, pool, run) : [];
      note.textContent =
        found.length > 0
          ? `The steps that added the most to ${pool.name}${run === null ? "" : ` in run ${count(run)}`}. Their tensors may have been freed before the peak.`
          : nothing(rank, pool);
      fill(table, found.length > 0 && list(store, rank, pool, found));
    };
  });
}

function nothing(rank: Rank, pool: Pool | undefined): string {
  if (!pool) return "The input has no memory pools.";
  if (rank.end === 0) return "The input does not list operations, so increases can't be attributed to steps.";
  return `No step increased ${pool.name}${pool.quantum > 0 ? " by more than the rounding error" : ""}.`;
}

function list(store: Store, rank: Rank, pool: Pool, increases: Repeated[]): HTMLElement {
  const row = (increase: Repeated) => {
    const { first_step: first, added_per_bank: added, count: number, loc, locations } = increase;
    const types = [...rank.ops.resultTypes.get(rank.steps.op[first])].filter((type) => type >= 0);
    const each = h("span", { title: `${change(added * number)} in total` }, changeElement(added), " each");
    return [
      h("td", { class: "nowrap" }, stepLink(store, first, stepsText(increase))),
      h("td", { class: "number", "data-fact": "added" }, number > 1 ? each : changeElement(added)),
      h("td", { class: "number" }, sizeElement(pool.heldAt(rank, momentBefore(first)))),
      h("td", { class: "op" }, operationText(rank.opName(first), loc, locations)),
      h("td", { class: "mono" }, types.map((type) => rank.typeText(type)).join(", ")),
      h(
        "td",
        { class: "nowrap" },
        h(
          "button",
          {
            type: "button",
            class: "small",
            "aria-label": `Show step ${count(first)} in the table`,
            onclick: () => jumpTo("operations", first),
          },
          "table",
        ),
      ),
    ];
  };
  const heads: Heading[] = [
    ["Steps", false],
    [`Increase${bankWords(pool.extent).suffix}`, true],
    ["Before", true],
    ["Operation", false],
    ["Result", false],
    ["Show in", false],
  ];
  return plainTable(heads, increases.map(row)).table;
}
