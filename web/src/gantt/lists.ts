// The lists under the chart: where the time goes, the longest chain, what ran at once. A click goes there.

import "../sections/lists.css";
import { fill, h } from "../dom";
import { changeElement, count, counted, percent, shorten } from "../format";
import type { GanttChart } from "./chart";
import type { GanttData } from "./data";
import { duration, since } from "./time";

/** How many rows a list has at first, and at most. */
const FEW = 10;
const MOST = 100;
/** A chain of no more calls than this is listed call by call. */
const SHORT = 30;

type Cell = Node | string;

interface Columns {
  heads: [text: string, isNumber: boolean][];
  rows: Cell[][];
}

/** The three lists. */
export function lists(data: GanttData, chart: GanttChart): HTMLElement {
  return h("div", { class: "gantt-lists" }, hotPaths(data, chart), chain(data, chart), overlaps(data, chart));
}

/** A link to a place of the chart. */
function link(text: string, title: string, go: () => void, chart: GanttChart): HTMLElement {
  const follow = () => {
    go();
    chart.element.scrollIntoView({ block: "nearest" });
    chart.focus();
  };
  return h("button", { class: "link gantt-link", type: "button", title, onclick: follow }, text);
}

function table({ heads, rows }: Columns): HTMLElement {
  const cell = (content: Cell, column: number) =>
    h("td", { class: heads[column][1] ? "number" : "op" }, content);
  const bodyRows = rows.map((row) => h("tr", {}, row.map(cell)));
  const body = h("tbody", {}, bodyRows.slice(0, FEW));
  const head = h(
    "tr",
    {},
    heads.map(([text, isNumber]) => h("th", { scope: "col", class: isNumber ? "number" : null }, text)),
  );
  const box = h(
    "div",
    {},
    h("div", { class: "scroll-x" }, h("table", { class: "plain-table" }, h("thead", {}, head), body)),
  );
  if (bodyRows.length > FEW) {
    const more = h("button", { class: "link", type: "button" }, `all ${count(bodyRows.length)}`);
    more.addEventListener("click", () => {
      fill(body, bodyRows);
      more.remove();
    });
    box.append(more);
  }
  return box;
}

function list(id: string, title: string, note: Cell[], content: HTMLElement | null): HTMLElement {
  return h(
    "div",
    { class: "gantt-list", "data-list": id },
    h("h3", {}, title),
    h("p", { class: "note" }, note),
    content,
  );
}

function hotPaths(data: GanttData, chart: GanttChart): HTMLElement {
  const paths = data.meta.hot_paths;
  const rows = paths.map((path) => {
    const name = shorten(path.path, 90);
    const call = path.longest_call;
    const title = `${path.path}\nGo to ${path.timed > 0 ? "the longest" : "the first"} call`;
    return [
      call === null ? h("span", { class: "mono" }, name) : link(name, title, () => chart.goTo(call), chart),
      count(path.count),
      length(path.own_ns),
      length(path.total_ns),
      length(path.longest_ns),
      changeElement(path.change),
    ];
  });
  const heads: Columns["heads"] = [
    ["Operation", false],
    ["Calls", true],
    ["Own time", true],
    ["With inner calls", true],
    ["Longest", true],
    ["Memory change", true],
  ];
  const note = "By count times time: how long all calls took together, without the calls inside of them.";
  return list("hot-paths", "Hot paths", [note], table({ heads, rows }));
}

const length = (ns: number | null): Cell =>
  ns === null ? h("span", { class: "unknown" }, "unknown") : duration(ns);

function chain(data: GanttData, chart: GanttChart): HTMLElement {
  const { time_ns: time, calls } = data.meta.chain;
  if (calls === 0) {
    return list("chain", "Longest chain", ["No call has a known length."], null);
  }
  const content = calls <= SHORT ? chainInOrder(data, chart) : chainByOperation(data, chart);
  const mark = h(
    "button",
    { type: "button", class: "gantt-mark", "aria-pressed": "false" },
    "Mark in the chart",
  );
  mark.addEventListener("click", () => {
    const isOn = mark.getAttribute("aria-pressed") !== "true";
    mark.setAttribute("aria-pressed", String(isOn));
    chart.markChain(isOn);
  });
  const share = percent(time, data.length);
  const note =
    `${counted(calls, "innermost call")} of which none overlaps another, on any lane, take ${duration(time)} ` +
    `together: ${share} of all time.`;
  return list("chain", "Longest chain without overlap", [note, mark], table(content));
}

/** A chain that can be read from one end to the other. */
function chainInOrder(data: GanttData, chart: GanttChart): Columns {
  const rows = [...data.chain].map((call) => [
    link(shorten(data.name(call), 60), data.name(call), () => chart.goTo(call), chart),
    duration(tookOf(data, call)),
    percent(tookOf(data, call), data.meta.chain.time_ns),
    since(data.began[call], 1e6),
    h("span", { class: "mono" }, shorten(data.lanes[data.lane[call]].name, 24)),
  ]);
  const heads: Columns["heads"] = [
    ["Operation", false],
    ["Takes", true],
    ["Of the chain", true],
    ["Begins", true],
    ["Lane", false],
  ];
  return { heads, rows };
}

/** What a long chain is made of, most first. */
function chainByOperation(data: GanttData, chart: GanttChart): Columns {
  const parts = new Map<number, { calls: number; time: number; longest: number }>();
  for (const call of data.chain) {
    const part = parts.get(data.scope[call]) ?? { calls: 0, time: 0, longest: call };
    part.calls += 1;
    part.time += tookOf(data, call);
    if (tookOf(data, call) > tookOf(data, part.longest)) part.longest = call;
    parts.set(data.scope[call], part);
  }
  const sorted = [...parts.values()].sort((a, b) => b.time - a.time).slice(0, MOST);
  const rows = sorted.map(({ calls, time, longest }) => {
    const name = [...data.around(longest, 3), data.name(longest)].join(" › ");
    const title = `${name}\nGo to the longest call of it in the chain`;
    return [
      link(shorten(name, 70), title, () => chart.goTo(longest), chart),
      count(calls),
      duration(time),
      percent(time, data.meta.chain.time_ns),
      duration(tookOf(data, longest)),
    ];
  });
  const heads: Columns["heads"] = [
    ["Operation", false],
    ["Calls", true],
    ["Together", true],
    ["Of the chain", true],
    ["Longest", true],
  ];
  return { heads, rows };
}

const tookOf = (data: GanttData, call: number): number => data.until[call] - data.began[call];

function overlaps(data: GanttData, chart: GanttChart): HTMLElement {
  const { overlaps, first_ns: first } = data.meta;
  if (overlaps.sets === 0) {
    return list("overlaps", "At the same time", ["No two lanes were in calls at the same time."], null);
  }
  const rows = overlaps.longest.map((overlap) => {
    const names = overlap.calls.map((call) => shorten(data.name(call), 40)).join(" ∥ ");
    const more =
      overlap.lanes > overlap.calls.length ? ` and ${overlap.lanes - overlap.calls.length} more` : "";
    const go = () => chart.goToStretch(overlap.from_ns - first, overlap.until_ns - first, overlap.calls[0]);
    return [
      link(names + more, "Go to the longest time", go, chart),
      duration(overlap.time_ns),
      count(overlap.count),
      duration(overlap.until_ns - overlap.from_ns),
    ];
  });
  const heads: Columns["heads"] = [
    ["Operations", false],
    ["Together", true],
    ["Times", true],
    ["Longest", true],
  ];
  const left = overlaps.sets - overlaps.longest.length;
  const note =
    `Two or more lanes were in calls for ${duration(overlaps.time_ns)}, ${percent(overlaps.time_ns, data.length)} of all time` +
    (left > 0 ? `; ${counted(left, "shorter set is", "shorter sets are")} not listed.` : ".");
  return list("overlaps", "At the same time", [note], table({ heads, rows }));
}
