// The steps that added most, with their net effect.

import "./lists.css";
import { bankWords } from "../banks";
import { momentBefore, type Pool, type Rank } from "../data/report";
import { isTenstorrent } from "../data/summary";
import { fill, h } from "../dom";
import { changeElement, count, sizeElement } from "../format";
import { jumpTo } from "../jump";
import { operationText, poolTabs, stepLink } from "../moment";
import { type Section, section } from "../section";
import { type Store, spanOf } from "../state";

/** How many rows the list has. */
const MOST = 10;

export function consumersSection(store: Store): Section {
  return section(store, "consumers", "Top memory consumers", ["rank", "pool", "run"], (body, head) => {
    const tabs = poolTabs(store, "the consumers");
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
          ? `The steps that added most to ${pool.name}${run === null ? "" : ` in run ${count(run)}`}: not the states near the peak.`
          : nothing(rank, pool);
      fill(table, steps.length > 0 && list(store, rank, pool, steps));
    };
  });
}

function nothing(rank: Rank, pool: Pool | undefined): string {
  if (!pool) return "The log shows no pool of memory.";
  if (rank.end === 0) return "The log names no operations, so nobody knows which of them added memory.";
  return `No step added memory to ${pool.name}${pool.quantum > 0 ? " beyond what rounding hides" : ""}.`;
}

/** The steps of a stretch of time that added most, the largest first; what rounding alone can do is none. */
function largest(rank: Rank, pool: Pool, span: { from: number; to: number }): number[] {
  const { effect } = pool;
  let top: number[] = [];
  let least = pool.quantum;
  for (let step = span.from; step < Math.min(span.to, rank.end); step++) {
    if (!(effect[step] > least)) continue;
    top.push(step);
    if (top.length >= MOST * 20) {
      top = best(effect, top);
      least = effect[top[top.length - 1]];
    }
  }
  return best(effect, top);
}

function best(effect: Float64Array, steps: number[]): number[] {
  return steps.sort((a, b) => effect[b] - effect[a] || a - b).slice(0, MOST);
}

const RESULT: [string, boolean] = ["Result", false];

function list(store: Store, rank: Rank, pool: Pool, steps: number[]): HTMLElement {
  const hasResults = isTenstorrent(rank.summary) || rank.hasResults;
  const row = (step: number) => {
    const types = [...rank.ops.resultTypes.get(rank.steps.op[step])].filter((type) => type >= 0);
    return h(
      "tr",
      {},
      h("td", { class: "number" }, stepLink(store, step, count(step))),
      h("td", { class: "number", "data-fact": "added" }, changeElement(pool.effect[step])),
      h("td", { class: "number" }, sizeElement(pool.heldAt(rank, momentBefore(step)))),
      h("td", { class: "op" }, operationText(rank.opName(step), rank.opLoc(step))),
      hasResults && h("td", { class: "mono" }, types.map((type) => rank.typeText(type)).join(", ")),
      h(
        "td",
        {},
        h(
          "button",
          { class: "link", type: "button", onclick: () => jumpTo("operations", step) },
          "in the table",
        ),
      ),
    );
  };
  const heads: [string, boolean][] = [
    ["Step", true],
    [`Added${bankWords(pool.extent).perBank}`, true],
    ["Allocated before", true],
    ["Operation", false],
    ...(hasResults ? [RESULT] : []),
    ["", false],
  ];
  return h(
    "table",
    { class: "plain-table" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        heads.map(([text, number]) => h("th", { scope: "col", class: number ? "number" : null }, text)),
      ),
    ),
    h("tbody", {}, steps.map(row)),
  );
}
