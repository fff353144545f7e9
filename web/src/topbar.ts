// The bar on top: the name, which rank and run are looked at, and the theme.

import { momentBefore, type Pool, type Rank, type Report } from "./data/report";
import { fill, h } from "./dom";
import { count } from "./format";
import { type State, type Store, spanOf } from "./state";

/** With more runs than this a list to choose from is no help. */
const MOST_CHOICES = 2000;

export function topbar(report: Report, store: Store, choose: (rank: number) => void): HTMLElement {
  const theme = h("button", { type: "button", class: "theme" });
  theme.addEventListener("click", () => {
    store.set({ theme: store.state.theme === "dark" ? "light" : "dark" });
  });
  const showTheme = ({ theme: now }: State) => {
    document.documentElement.dataset.theme = now;
    theme.textContent = now === "dark" ? "Light" : "Dark";
    theme.setAttribute("aria-label", `Use the ${now === "dark" ? "light" : "dark"} theme`);
  };
  // Before all others: canvases read the colours of the page.
  store.on(["theme"], showTheme);
  showTheme(store.state);
  const runs = h("span", {});
  const showRuns = (state: State) => fill(runs, runChoice(store, state));
  store.on(["rank", "run"], showRuns);
  showRuns(store.state);
  const title = h("h1", { title: report.name }, report.name);
  const inside = h("div", { class: "inside" }, title, rankChoice(report, store, choose), runs);
  inside.append(h("span", { class: "spacer" }), theme);
  return h("div", { class: "topbar" }, inside);
}

function rankChoice(report: Report, store: Store, choose: (rank: number) => void): HTMLElement | null {
  if (report.rankCount < 2) return null;
  const select = h("select", { id: "rank-choice" });
  for (const [index, { rank }] of report.summary.ranks.entries()) {
    select.append(h("option", { value: index }, rank ?? String(index)));
  }
  select.addEventListener("change", () => choose(Number(select.value)));
  const show = ({ rank }: State) => {
    select.value = String(rank.index);
  };
  store.on(["rank"], show);
  show(store.state);
  return h("label", {}, "rank", select);
}

/** Chooses a run: by name among few, by number among many. */
function runChoice(store: Store, { rank, run }: State): HTMLElement | null {
  const rows = topLevelRuns(rank);
  if (rows.length < 2) return null;
  const select = (value: string) => showRun(store, value === "" ? null : Number(value));
  if (rows.length > MOST_CHOICES) {
    const field = h("input", {
      type: "number",
      id: "run-choice",
      min: 1,
      max: rows.length,
      placeholder: "all",
    });
    field.value = run === null ? "" : String(run);
    field.addEventListener("change", () => select(field.value));
    return h("label", {}, `run (of ${count(rows.length)})`, field);
  }
  const element = h(
    "select",
    { id: "run-choice" },
    h("option", { value: "" }, `all ${count(rows.length)} runs`),
  );
  for (const [graph, ofGraph] of byGraph(rank, rows)) {
    const options = ofGraph.map((row) => h("option", { value: rank.runs.number[row] }, runText(rank, row)));
    element.append(...(graph === null ? options : [h("optgroup", { label: graph }, options)]));
  }
  element.value = run === null ? "" : String(run);
  element.addEventListener("change", () => select(element.value));
  return h("label", {}, "run", element);
}

function topLevelRuns(rank: Rank): number[] {
  return Array.from(rank.runs.parent.keys()).filter((row) => rank.runs.parent[row] < 0);
}

/** The runs under the names of their graphs, where there are several graphs. */
function byGraph(rank: Rank, rows: number[]): Map<string | null, number[]> {
  const groups = new Map<string | null, number[]>();
  for (const row of rows) {
    const module = rank.runs.module[row];
    const name = module < 0 ? "graph unknown" : (rank.modules[module].name ?? `graph ${module + 1}`);
    const key = rank.modules.length < 2 ? null : name;
    groups.set(key, [...(groups.get(key) ?? []), row]);
  }
  return groups;
}

function runText(rank: Rank, row: number): string {
  const { program, number, first, end, finished } = rank.runs;
  const name = rank.report.texts.get(program[row]);
  const cut = finished[row] ? "" : ", did not finish";
  return `${number[row]}: ${name.slice(0, 60)}, steps ${count(first[row])} to ${count(Math.max(first[row], end[row] - 1))}${cut}`;
}

/** Looks at one run, at its peak; or at all. */
export function showRun(store: Store, run: number | null): void {
  const { rank, pool } = store.state;
  const span = spanOf(rank, run);
  const of = rank.pools[pool];
  const moment = run === null ? of?.peakMoment : of && peakWithin(of, span.from, span.to);
  store.set({ run, ...span, moment: moment ?? momentBefore(span.from) });
}

/** The first moment at which a pool holds most between two positions. */
export function peakWithin(pool: Pool, from: number, to: number): number | null {
  const { at, value } = pool.held;
  const [start, last] = [momentBefore(from), to * 2];
  let best = pool.held.indexAt(start);
  for (let index = best + 1; index < at.length && at[index] <= last; index++) {
    if (best < 0 || value[index] > value[best]) best = index;
  }
  return best < 0 ? null : Math.max(at[best], start);
}
