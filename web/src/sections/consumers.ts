// The steps with the largest net increases.

import "./lists.css";
import { bankWords } from "../banks";
import { momentBefore, type Pool, type Rank } from "../data/report";
import { fill, h } from "../dom";
import { changeElement, count, sizeElement } from "../format";
import { jumpTo } from "../jump";
import { operationText, poolTabs, stepLink } from "../moment";
import { type Heading, plainTable } from "../plain-table";
import { type Section, section } from "../section";
import { type Store, spanOf } from "../state";

/** The number of rows of the list. */
const MAX_ROWS = 10;

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
      const steps = pool ? largest(rank, pool, spanOf(rank, run)) : [];
      note.textContent =
        steps.length > 0
          ? `The steps that added the most to ${pool.name}${run === null ? "" : ` in run ${count(run)}`}; they need not be near the peak.`
          : nothing(rank, pool);
      fill(table, steps.length > 0 && list(store, rank, pool, steps));
    };
  });
}

function nothing(rank: Rank, pool: Pool | undefined): string {
  if (!pool) return "The input has no memory pools.";
  if (rank.end === 0) return "The input names no operations, so increases can't be attributed to steps.";
  return `No step increased ${pool.name}${pool.quantum > 0 ? " by more than the rounding error" : ""}.`;
}

/** The steps of a range with the largest increases, largest first; increases within the rounding error are skipped. */
function largest(rank: Rank, pool: Pool, span: { from: number; to: number }): number[] {
  const { effect } = pool;
  let top: number[] = [];
  let threshold = pool.quantum;
  for (let step = span.from; step < Math.min(span.to, rank.end); step++) {
    if (!(effect[step] > threshold)) continue;
    top.push(step);
    if (top.length >= MAX_ROWS * 20) {
      top = best(effect, top);
      threshold = effect[top[top.length - 1]];
    }
  }
  return best(effect, top);
}

function best(effect: Float64Array, steps: number[]): number[] {
  return steps.sort((a, b) => effect[b] - effect[a] || a - b).slice(0, MAX_ROWS);
}

function list(store: Store, rank: Rank, pool: Pool, steps: number[]): HTMLElement {
  const row = (step: number) => {
    const types = [...rank.ops.resultTypes.get(rank.steps.op[step])].filter((type) => type >= 0);
    return [
      h("td", { class: "number" }, stepLink(store, step, count(step))),
      h("td", { class: "number", "data-fact": "added" }, changeElement(pool.effect[step])),
      h("td", { class: "number" }, sizeElement(pool.heldAt(rank, momentBefore(step)))),
      h("td", { class: "op" }, operationText(rank.opName(step), rank.opLoc(step))),
      h("td", { class: "mono" }, types.map((type) => rank.typeText(type)).join(", ")),
      h(
        "td",
        {},
        h(
          "button",
          { class: "link", type: "button", onclick: () => jumpTo("operations", step) },
          "Show in table",
        ),
      ),
    ];
  };
  const heads: Heading[] = [
    ["Step", true],
    [`Increase${bankWords(pool.extent).suffix}`, true],
    ["Allocated before", true],
    ["Operation", false],
    ["Result", false],
    ["", false],
  ];
  return plainTable(heads, steps.map(row)).table;
}
