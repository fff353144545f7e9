// The chart with the bar above and the lists below, used by the gantt page and the report page.

import { bankWords } from "../banks";
import { fill, h } from "../dom";
import { count, counted, shorten, size } from "../format";
import { GanttChart, HINT } from "./chart";
import { barColors } from "./colors";
import { curveChoices, peakOf, rowAt } from "./curve";
import type { GanttData } from "./data";
import { describeCall } from "./describe";
import { lists } from "./lists";
import { type Found, find, nextFound } from "./search";
import { duration } from "./time";

/** The delay before data that is not visible initially is decoded. */
const PREPARE_DELAY_MS = 300;
/** The number of names in the legend: those that take the most time. */
const MAX_LEGEND = 8;

export class GanttView {
  readonly element: HTMLElement;
  readonly chart: GanttChart;
  private readonly field: HTMLInputElement;
  private readonly count = h("span", { class: "gantt-count", role: "status" });
  private readonly chosen = h("div", { class: "gantt-chosen", "aria-live": "polite" });
  private readonly legend = h("div", { class: "chart-legend" });
  private found: Found | null = null;
  private at = -1;

  /** `pools` are the names of the pools by importance, if known. */
  constructor(
    private readonly data: GanttData,
    pools: readonly string[] | null = null,
  ) {
    const chart = new GanttChart(data);
    this.chart = chart;
    this.field = h("input", {
      type: "search",
      class: "gantt-search",
      placeholder: "Search names",
      "aria-label": "Search calls",
    });
    const showAll = () => chart.showAll();
    const reset = h("button", { type: "button", disabled: chart.showsAll, onclick: showAll }, "Show all");
    chart.onWindow = (showsAll) => {
      reset.disabled = showsAll;
    };
    chart.onChoose = (call) => {
      this.at = call;
      this.showChosen(call);
    };
    chart.onSearchKey = () => this.focusSearch();
    this.field.addEventListener("input", () => this.search());
    this.field.addEventListener("keydown", (event) => this.onSearchKey(event));
    const step = (text: string, label: string, forward: boolean) =>
      h("button", { type: "button", "aria-label": label, onclick: () => this.step(forward) }, text);
    const bar = h(
      "div",
      { class: "chart-bar" },
      this.field,
      step("↑", "Previous match", false),
      step("↓", "Next match", true),
      this.count,
      h("span", { class: "spacer" }),
      poolChoice(data, chart, pools),
      reset,
    );
    const facts = h("p", { class: "note gantt-summary" }, ...summaryOf(data, pools), startNote(data, chart));
    this.element = h(
      "div",
      { class: "gantt" },
      facts,
      bar,
      this.legend,
      chart.element,
      h("p", { class: "chart-hint" }, HINT),
      this.chosen,
      lists(data, chart),
    );
    this.showChosen(-1);
    this.recolor();
    setTimeout(() => data.prepare(), PREPARE_DELAY_MS);
  }

  /** Redraws in the colors of the current theme. */
  recolor(): void {
    const theme = document.documentElement.dataset.theme === "dark" ? "dark" : "light";
    fill(
      this.legend,
      legendOf(this.data, theme, (name) => this.searchFor(name)),
    );
    this.chart.showPool(this.chart.pool);
  }

  focusSearch(): void {
    this.field.focus();
    this.field.select();
  }

  searchFor(text: string): void {
    this.field.value = this.field.value === text ? "" : text;
    this.search();
  }

  private search(): void {
    this.found = find(this.data, this.field.value);
    this.chart.highlight(this.found?.scopes ?? null);
    this.count.textContent = this.found
      ? `${count(this.found.calls)} of ${counted(this.data.count, "call")}`
      : "";
  }

  private onSearchKey(event: KeyboardEvent): void {
    if (event.key === "Enter") {
      event.preventDefault();
      this.step(!event.shiftKey);
    } else if (event.key === "Escape") {
      this.field.value = "";
      this.search();
      this.chart.focus();
    }
  }

  /** Selects the next or previous match. */
  private step(forward: boolean): void {
    if (!this.found) {
      this.focusSearch();
      return;
    }
    // If no call is selected, start with the calls in view.
    const from = this.at >= 0 ? this.at : rowAt(this.data.began, this.chart.view.from - 0.5);
    const call = nextFound(this.data, this.found, from, forward);
    if (call >= 0) this.chart.goTo(call);
  }

  private showChosen(call: number): void {
    if (call < 0) {
      fill(this.chosen, h("p", { class: "note" }, "No call selected. Click a call to see its details."));
      return;
    }
    const parent = this.data.parent(call);
    const zoom = h("button", { type: "button", onclick: () => this.chart.goTo(call, true) }, "Zoom to call");
    const outer =
      parent >= 0 &&
      h(
        "button",
        { type: "button", onclick: () => this.chart.goTo(parent, true) },
        `Zoom to caller: ${shorten(this.data.name(parent), 40)}`,
      );
    fill(this.chosen, ...describeCall(this.data, call, 1), h("div", { class: "chart-bar" }, zoom, outer));
  }
}

function poolChoice(data: GanttData, chart: GanttChart, pools: readonly string[] | null): HTMLElement | null {
  if (data.curves.length < 2) return null;
  const { order, first } = curveChoices(data.curves, pools);
  const select = h(
    "select",
    { class: "gantt-pool" },
    order.map((curve) => h("option", { value: curve }, data.curves[curve].name)),
  );
  select.value = String(first);
  chart.showPool(first);
  select.addEventListener("change", () => chart.showPool(Number(select.value)));
  return h("label", {}, "memory pool ", select);
}

/** Why the chart does not start at 0. */
function startNote(data: GanttData, chart: GanttChart): string {
  return chart.showsAll
    ? ""
    : ` The chart starts at the first call, ${duration(data.firstCall)} after the start.`;
}

function summaryOf(data: GanttData, pools: readonly string[] | null): string[] {
  const { meta } = data;
  const used = data.lanes.filter(({ rows }) => rows > 0).length;
  const parts = [`${counted(data.count, "call")} in ${counted(used, "lane")} over ${duration(data.length)}.`];
  if (meta.further_calls > 0) {
    parts.push(
      ` ${counted(meta.further_calls, "older call is", "older calls are")} only included in the hot paths.`,
    );
  }
  let marks = 0;
  for (const until of data.until) if (Number.isNaN(until)) marks++;
  if (marks > 0) {
    const unknown =
      marks === data.count
        ? "No call has a known duration"
        : `${counted(marks, "call has", "calls have")} no known duration`;
    parts.push(` ${unknown}; marks (◆) show the start times.`);
  }
  if (data.curves.length === 0) parts.push(" No memory was recorded over time.");
  else {
    const curves = curveChoices(data.curves, pools).order.map((curve) => data.curves[curve]);
    const texts = curves.map(
      (curve) => `${curve.name} ${size(peakOf(curve))}${bankWords(curve.extent).perBank}`,
    );
    parts.push(` Peak memory: ${texts.join(", ")}.`);
  }
  return parts;
}

/** The names that take the most time, with their colors. */
function legendOf(data: GanttData, theme: "light" | "dark", search: (name: string) => void): HTMLElement[] {
  const seen = new Set<string>();
  const keys: HTMLElement[] = [];
  for (const { scope } of data.meta.hot_paths) {
    const [name, kind] = [data.scopeName[scope], data.meta.kinds[data.scopeKind[scope]]];
    if (seen.has(`${kind} ${name}`) || keys.length >= MAX_LEGEND) continue;
    seen.add(`${kind} ${name}`);
    const color = barColors(kind, name, theme).fill;
    const title = `${kind} ${name}\nSearch for it`;
    keys.push(
      h(
        "button",
        { type: "button", class: "chart-key", title, onclick: () => search(name) },
        h("span", {
          class: "chart-swatch chart-swatch-block",
          style: `--swatch: ${color}`,
          "aria-hidden": "true",
        }),
        shorten(name, 28),
      ),
    );
  }
  return keys;
}
