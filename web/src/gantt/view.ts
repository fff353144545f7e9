// The chart with its bar above and its lists below: the same on a page of its own and in a report.

import { bankWords } from "../banks";
import { fill, h } from "../dom";
import { count, counted, shorten, size } from "../format";
import { GanttChart, HINT } from "./chart";
import { barColors } from "./colors";
import { curveToShow, peakOf, rowAt } from "./curve";
import type { GanttData } from "./data";
import { describeCall } from "./describe";
import { lists } from "./lists";
import { type Found, find, nextFound } from "./search";
import { duration } from "./time";

/** What is not seen at first is unpacked so long after. */
const WAIT_MS = 300;
/** So many names have a place in the legend: those that take most time. */
const NAMED = 8;

export class GanttView {
  readonly element: HTMLElement;
  readonly chart: GanttChart;
  private readonly field: HTMLInputElement;
  private readonly count = h("span", { class: "gantt-count", role: "status" });
  private readonly chosen = h("div", { class: "gantt-chosen", "aria-live": "polite" });
  private readonly legend = h("div", { class: "chart-legend" });
  private found: Found | null = null;
  private at = -1;

  constructor(private readonly data: GanttData) {
    const chart = new GanttChart(data);
    this.chart = chart;
    this.field = h("input", {
      type: "search",
      class: "gantt-search",
      placeholder: "Search names",
      "aria-label": "Search the calls",
    });
    const reset = h("button", { type: "button", disabled: true, onclick: () => chart.showAll() }, "Show all");
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
      step("↑", "The call before that was found", false),
      step("↓", "The next call that was found", true),
      this.count,
      h("span", { class: "spacer" }),
      poolChoice(data, chart),
      reset,
    );
    const facts = h("p", { class: "note gantt-summary" }, ...summaryOf(data));
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
    setTimeout(() => data.prepare(), WAIT_MS);
  }

  /** Draws it in the colours of the theme that is on now. */
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

  /** Goes to the next call that was found. */
  private step(forward: boolean): void {
    if (!this.found) {
      this.focusSearch();
      return;
    }
    // Where no call is looked at, what is in view comes first.
    const from = this.at >= 0 ? this.at : rowAt(this.data.began, this.chart.view.from - 0.5);
    const call = nextFound(this.data, this.found, from, forward);
    if (call >= 0) this.chart.goTo(call);
  }

  private showChosen(call: number): void {
    if (call < 0) {
      fill(this.chosen, h("p", { class: "note" }, "No call is looked at: click one."));
      return;
    }
    const parent = this.data.parent(call);
    const zoom = h("button", { type: "button", onclick: () => this.chart.goTo(call, true) }, "Zoom to it");
    const outer =
      parent >= 0 &&
      h(
        "button",
        { type: "button", onclick: () => this.chart.goTo(parent, true) },
        `Around it: ${shorten(this.data.name(parent), 40)}`,
      );
    fill(this.chosen, ...describeCall(this.data, call, 1), h("div", { class: "chart-bar" }, zoom, outer));
  }
}

function poolChoice(data: GanttData, chart: GanttChart): HTMLElement | null {
  if (data.curves.length < 2) return null;
  const select = h(
    "select",
    { class: "gantt-pool" },
    data.curves.map(({ name }, pool) => h("option", { value: pool }, name)),
  );
  const first = curveToShow(data.curves);
  select.value = String(first);
  chart.showPool(first);
  select.addEventListener("change", () => chart.showPool(Number(select.value)));
  return h("label", {}, "memory of ", select);
}

function summaryOf(data: GanttData): string[] {
  const { meta } = data;
  const used = data.lanes.filter(({ rows }) => rows > 0).length;
  const parts = [`${counted(data.count, "call")} in ${counted(used, "lane")} over ${duration(data.length)}.`];
  if (meta.further_calls > 0) {
    parts.push(
      ` ${counted(meta.further_calls, "older call is", "older calls are")} not kept one by one, but in the hot paths.`,
    );
  }
  let marks = 0;
  for (const until of data.until) if (Number.isNaN(until)) marks++;
  if (marks > 0) {
    const all = marks === data.count ? "all of them" : count(marks);
    parts.push(` Of ${all} only the time is known, not the length: those are marks (◆).`);
  }
  if (data.curves.length === 0) parts.push(" No memory was read in time.");
  else {
    const texts = data.curves.map(
      (curve) => `${curve.name} ${size(peakOf(curve))}${bankWords(curve.extent).perBank}`,
    );
    parts.push(` Most memory: ${texts.join(", ")}.`);
  }
  return parts;
}

/** The names that take most time, with their colours. */
function legendOf(data: GanttData, theme: "light" | "dark", search: (name: string) => void): HTMLElement[] {
  const seen = new Set<string>();
  const keys: HTMLElement[] = [];
  for (const { scope } of data.meta.hot_paths) {
    const [name, kind] = [data.scopeName[scope], data.meta.kinds[data.scopeKind[scope]]];
    if (seen.has(`${kind} ${name}`) || keys.length >= NAMED) continue;
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
