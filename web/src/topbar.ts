// The top bar: the report's name, the rank and run selection, and the theme.

import { momentBefore, type Rank, type Report } from "./data/report";
import { fill, h } from "./dom";
import { count } from "./format";
import { type State, type Store, topLevelRuns, windowOf } from "./state";

/** With more runs than this, a number field replaces the list. */
const MAX_CHOICES = 2000;

export function topbar(report: Report, store: Store, choose: (rank: number) => void): HTMLElement {
  const theme = h("button", { type: "button", class: "theme" });
  // A manual choice overrides the system's theme.
  let isChosen = false;
  theme.addEventListener("click", () => {
    isChosen = true;
    store.set({ theme: store.state.theme === "dark" ? "light" : "dark" });
  });
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => {
    if (!isChosen) store.set({ theme: dark.matches ? "dark" : "light" });
  });
  const showTheme = ({ theme: now }: State) => {
    document.documentElement.dataset.theme = now;
    theme.textContent = now === "dark" ? "Light" : "Dark";
    theme.setAttribute("aria-label", `Use the ${now === "dark" ? "light" : "dark"} theme`);
  };
  // This listener is first: canvases read the page's colors.
  store.on(["theme"], showTheme);
  showTheme(store.state);
  const runs = h("span", {});
  const showRuns = (state: State) => fill(runs, runChoice(store, state));
  store.on(["rank"], showRuns);
  // Only the value changes: replacing the field would take the keyboard focus away.
  store.on(["run"], ({ run }) => {
    const field = runs.querySelector<HTMLInputElement | HTMLSelectElement>("#run-choice");
    if (field) field.value = run === null ? "" : String(run);
  });
  showRuns(store.state);
  const title = h("h1", { title: report.name }, report.name);
  const inside = h("div", { class: "inside" }, title, rankChoice(report, store, choose), runs);
  inside.append(h("span", { class: "spacer" }), theme);
  return h("div", { class: "topbar" }, inside);
}

function rankChoice(report: Report, store: Store, choose: (rank: number) => void): HTMLElement | null {
  if (report.rankCount < 2) return null;
  const select = h("select", { id: "rank-choice" });
  const { ranks } = report.summary;
  const hasProcesses = ranks.some(({ process }) => process !== ranks[0].process);
  for (const [index, { rank, process }] of ranks.entries()) {
    const label = hasProcesses
      ? `${process}${rank === null ? "" : `, rank ${rank}`}`
      : (rank ?? String(index));
    select.append(h("option", { value: index }, label));
  }
  select.addEventListener("change", () => choose(Number(select.value)));
  const show = ({ rank }: State) => {
    select.value = String(rank.index);
  };
  store.on(["rank"], show);
  show(store.state);
  return h("label", {}, hasProcesses ? "process" : "rank", select);
}

/** Selects a run: a list if there are few runs, a number field if there are many. */
function runChoice(store: Store, { rank, run }: State): HTMLElement | null {
  const rows = [...topLevelRuns(rank)];
  if (rows.length < 2) return null;
  const select = (value: string) => showRun(store, value === "" ? null : Number(value));
  if (rows.length > MAX_CHOICES) {
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

/** The runs, grouped by graph if there are several graphs. */
function byGraph(rank: Rank, rows: number[]): Map<string | null, number[]> {
  const groups = new Map<string | null, number[]>();
  for (const row of rows) {
    const module = rank.runs.module[row];
    const name = module < 0 ? "unknown graph" : (rank.modules[module].name ?? `graph ${module + 1}`);
    const key = rank.modules.length < 2 ? null : name;
    const group = groups.get(key);
    if (group) group.push(row);
    else groups.set(key, [row]);
  }
  return groups;
}

function runText(rank: Rank, row: number): string {
  const { program, number, first, end, finished } = rank.runs;
  const name = rank.report.texts.get(program[row]);
  const cut = finished[row] ? "" : ", unfinished";
  return `${number[row]}: ${name.slice(0, 60)}, steps ${count(first[row])} to ${count(Math.max(first[row], end[row] - 1))}${cut}`;
}

/** Shows one run at its peak, or all runs. */
export function showRun(store: Store, run: number | null): void {
  const { rank, pool } = store.state;
  const window = windowOf(rank, run);
  const of = rank.pools[pool];
  const peak = run === null ? of?.peakMoment : of?.runPeaks.at[run - 1];
  const moment = peak === null || peak === undefined || peak < 0 ? momentBefore(window.from) : peak;
  store.set({ run, ...window, moment });
}
