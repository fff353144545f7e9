// The number of executions of each operation, as bars.

import "./lists.css";
import { Kind, type Rank } from "../data/report";
import { isTenstorrent } from "../data/summary";
import { fill, h } from "../dom";
import { count, counted, percent } from "../format";
import { type Section, section } from "../section";
import { type Store, spanOf } from "../state";

/** The initial number of bars. */
const FIRST = 15;

export function distributionSection(store: Store): Section {
  return section(store, "distribution", "Operation distribution", ["rank", "run"], (body) => {
    const bars = h("div", { class: "bars" });
    const more = h("button", { type: "button", class: "link" });
    const note = h("p", { class: "note" });
    body.append(note, bars, more);
    let all = false;
    let draw = () => {};
    more.addEventListener("click", () => {
      all = !all;
      draw();
    });
    return ({ rank, run }) => {
      const rows = run === null ? rank.summary.distribution : ofRun(rank, run);
      const total = rows.reduce((sum, row) => sum + row.count, 0);
      note.textContent =
        rows.length > 0
          ? `${counted(total, "operation")} excluding deallocations${isTenstorrent(rank.summary) ? " and get_device" : ""}.`
          : "The input does not list operations.";
      draw = () => {
        const shown = all ? rows : rows.slice(0, FIRST);
        fill(
          bars,
          shown.flatMap((row) => bar(row, rows[0].count, total)),
        );
        more.hidden = rows.length <= FIRST;
        more.textContent = all ? "Show fewer" : `Show all ${count(rows.length)}`;
      };
      draw();
    };
  });
}

function bar(row: { op: string; count: number }, max: number, total: number): HTMLElement[] {
  return [
    h("span", { class: "mono" }, row.op),
    h("span", { class: "bar" }, h("i", { style: `width: ${(row.count / max) * 100}%` })),
    h(
      "span",
      { class: "number" },
      h("data", { value: row.count }, count(row.count)),
      ` · ${percent(row.count, total)}`,
    ),
  ];
}

/** The counts of one run. */
function ofRun(rank: Rank, run: number): { op: string; count: number }[] {
  const counts = new Map<number, number>();
  const { from, to } = spanOf(rank, run);
  for (let step = from; step < Math.min(to, rank.end); step++) {
    const op = rank.steps.op[step];
    const kind = rank.ops.kind[op];
    if (kind === Kind.Deallocate || kind === Kind.GetDevice) continue;
    counts.set(rank.ops.name[op], (counts.get(rank.ops.name[op]) ?? 0) + 1);
  }
  return [...counts]
    .map(([name, count]) => ({ op: rank.report.texts.get(name), count }))
    .sort((a, b) => b.count - a.count || (a.op < b.op ? -1 : 1));
}
