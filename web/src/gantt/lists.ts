// The lists below the chart: hot paths, the longest chain and concurrent calls. A click moves the chart there.

import "../sections/lists.css";
import { fill, h } from "../dom";
import { count, counted, percent, shorten, size } from "../format";
import { type Heading, plainTable } from "../plain-table";
import type { GanttChart } from "./chart";
import type { GanttData } from "./data";
import { duration, since } from "./time";

/** The initial and the maximum number of rows of a list. */
const FEW = 10;
const MAX_ROWS = 100;
/** A chain of at most this many calls is listed call by call. */
const MAX_CHAIN_IN_ORDER = 30;

type Cell = Node | string;

interface Columns {
  heads: Heading[];
  rows: Cell[][];
}

export function lists(data: GanttData, chart: GanttChart): HTMLElement {
  return h("div", { class: "gantt-lists" }, hotPaths(data, chart), chain(data, chart), overlaps(data, chart));
}

/** A button that moves the chart. */
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
  const cells = rows.map((row) => row.map(cell));
  const { table, body, rows: bodyRows } = plainTable(heads, cells);
  fill(body, bodyRows.slice(0, FEW));
  const box = h("div", {}, h("div", { class: "scroll-x" }, table));
  if (bodyRows.length > FEW) {
    const more = h("button", { class: "link", type: "button" }, `Show all ${count(bodyRows.length)}`);
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
  const retained = data.retainedBy(paths.map(({ scope }) => scope));
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
      retainedText(retained.get(path.scope) ?? [], path.count) ?? "–",
    ];
  });
  const heads: Columns["heads"] = [
    ["Operation", false],
    ["Calls", true],
    ["Own time", true],
    ["Total time", true],
    ["Longest", true],
    ["Retained per call", true],
  ];
  const note = "Sorted by own time: the total duration of all calls, excluding the calls inside them.";
  return list("hot-paths", "Hot paths", [note], table({ heads, rows }));
}

/**
 * What a call retains, as in `ttmem summary`: the median of the recorded calls, `751.7 MiB once` if most calls retain
 * nothing. A total over all calls would look like a leak. `null` if it is unknown.
 */
export function retainedText(bytes: readonly number[], calls: number): string | null {
  if (bytes.length === 0) return null;
  const median = bytes.toSorted((a, b) => a - b)[Math.floor(bytes.length / 2)];
  const total = bytes.reduce((sum, more) => sum + more, 0);
  const retaining = bytes.filter((more) => more > 0).length;
  if (median > 0 || total === 0) return size(median);
  if (bytes.length < calls) return `${size(total)} in some calls`;
  return retaining === 1 ? `${size(total)} once` : `${size(total)} in ${count(retaining)} calls`;
}

const length = (ns: number | null): Cell =>
  ns === null ? h("span", { class: "unknown" }, "unknown") : duration(ns);

function chain(data: GanttData, chart: GanttChart): HTMLElement {
  const { time_ns: time, calls } = data.meta.chain;
  if (calls === 0) {
    return list("chain", "Longest chain", ["No call has a known duration."], null);
  }
  const content = calls <= MAX_CHAIN_IN_ORDER ? chainInOrder(data, chart) : chainByOperation(data, chart);
  const mark = h(
    "button",
    { type: "button", class: "gantt-mark", "aria-pressed": "false" },
    "Highlight in chart",
  );
  mark.addEventListener("click", () => {
    const isOn = mark.getAttribute("aria-pressed") !== "true";
    mark.setAttribute("aria-pressed", String(isOn));
    chart.markChain(isOn);
  });
  const share = percent(time, data.length);
  const note =
    `${counted(calls, "innermost call")}, on any lane and without overlap, take ${duration(time)} in total, ` +
    `${share} of the recorded time.`;
  return list("chain", "Longest chain without overlap", [note, mark], table(content));
}

/** The calls of a short chain, in order. */
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
    ["Duration", true],
    ["Share of chain", true],
    ["Start", true],
    ["Lane", false],
  ];
  return { heads, rows };
}

/** The operations of a long chain, by total time. */
function chainByOperation(data: GanttData, chart: GanttChart): Columns {
  const parts = new Map<number, { calls: number; time: number; longest: number }>();
  for (const call of data.chain) {
    const part = parts.get(data.scope[call]) ?? { calls: 0, time: 0, longest: call };
    part.calls += 1;
    part.time += tookOf(data, call);
    if (tookOf(data, call) > tookOf(data, part.longest)) part.longest = call;
    parts.set(data.scope[call], part);
  }
  const sorted = [...parts.values()].sort((a, b) => b.time - a.time).slice(0, MAX_ROWS);
  const rows = sorted.map(({ calls, time, longest }) => {
    const name = [...data.around(longest, 3), data.name(longest)].join(" › ");
    const title = `${name}\nGo to its longest call in the chain`;
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
    ["Total time", true],
    ["Share of chain", true],
    ["Longest", true],
  ];
  return { heads, rows };
}

const tookOf = (data: GanttData, call: number): number => data.until[call] - data.began[call];

function overlaps(data: GanttData, chart: GanttChart): HTMLElement {
  const { overlaps, first_ns: first } = data.meta;
  if (overlaps.sets === 0) {
    return list("overlaps", "Concurrent calls", ["No two lanes had calls at the same time."], null);
  }
  const rows = overlaps.longest.map((overlap) => {
    const names = overlap.calls.map((call) => shorten(data.name(call), 40)).join(" ∥ ");
    const more =
      overlap.lanes > overlap.calls.length ? ` and ${overlap.lanes - overlap.calls.length} more` : "";
    const go = () => chart.goToRange(overlap.from_ns - first, overlap.until_ns - first, overlap.calls[0]);
    return [
      link(names + more, "Go to the longest overlap", go, chart),
      duration(overlap.time_ns),
      count(overlap.count),
      duration(overlap.until_ns - overlap.from_ns),
    ];
  });
  const heads: Columns["heads"] = [
    ["Operations", false],
    ["Total time", true],
    ["Count", true],
    ["Longest", true],
  ];
  const left = overlaps.sets - overlaps.longest.length;
  const note =
    `Two or more lanes had calls at the same time for ${duration(overlaps.time_ns)}, ${percent(overlaps.time_ns, data.length)} of the recorded time` +
    (left > 0 ? `; ${counted(left, "shorter set is", "shorter sets are")} not listed.` : ".");
  return list("overlaps", "Concurrent calls", [note], table({ heads, rows }));
}
