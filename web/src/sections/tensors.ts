// Tensors over time: the allocated memory by tensor, as stacked bands.

import "./tensors.css";
import { bankWords } from "../banks";
import { bandPath, paintStack } from "../charts/band-painter";
import { type Band, type Hit, hitAt, type Stack, sampleColumns, stackTensors } from "../charts/bands";
import type { Key } from "../charts/legend";
import { LineChart, type Paint, type Window } from "../charts/line-chart";
import { type Fact, factGrid, momentTitle, positionTitle } from "../charts/moment-facts";
import type { Spot } from "../charts/time-overlay";
import { NEVER, type Pool, type Rank } from "../data/report";
import { className, isTenstorrent } from "../data/summary";
import { fill, h } from "../dom";
import { stackElements } from "../flame/stack-lines";
import { count, counted, percent, shorten, size } from "../format";
import { type Section, section } from "../section";
import type { State, Store } from "../state";

const HEIGHT = 320;
/** The number of individual bands chosen by area, and the number chosen by size. */
const MAX_BY_AREA = 56;
const MAX_BY_SIZE = 24;
/** The classes whose tensors are short-lived. */
const RESTLESS = ["activation", "gradient", "temporary"];
/** Without a compiler, tensors without a class are short-lived too: they were freed before they were classified. */
const RESTLESS_UNCOMPILED = [...RESTLESS, "unknown"];
/** The minimum height of an individual band, in pixels. */
const MIN_PIXELS = 1.5;

export function tensorsSection(store: Store): Section {
  const depends = ["rank", "pool", "from", "to", "moment", "run", "theme"] as const;
  return section(store, "tensors", "Tensors over time", depends, (body, head) => {
    const view = new TensorsView(store, body, head);
    return (state) => view.draw(state);
  });
}

class TensorsView {
  private readonly poolName = h("span", { class: "note" });
  private readonly keys: Key[] = [];
  private readonly note = h("p", { class: "note" });
  private readonly chart: LineChart;
  private readonly highlight = h("canvas", { class: "tensors-highlight", "aria-hidden": "true" });
  private of: Pool | undefined;
  private rank: Rank;
  private stack: Stack | undefined;
  private paint: Paint | undefined;
  /** The number of tensors of unknown size in the pool. */
  private unknown = 0;
  private highlighted: Band | null = null;

  constructor(
    store: Store,
    private readonly body: HTMLElement,
    head: HTMLElement,
  ) {
    this.rank = store.state.rank;
    head.append(this.poolName);
    this.chart = new LineChart(store, {
      height: HEIGHT,
      lines: [{ label: "allocated", color: "allocated", look: "solid", width: 1.5 }],
      keys: this.keys,
      fitTo: 1,
      describe: (spot) => this.describe(spot),
      flag: (moment) => positionTitle(store.state.rank, moment),
      under: (paint) => {
        this.paint = paint;
        this.setHighlight(null);
        const { tensors } = this.rank;
        if (this.stack) paintStack(paint, this.stack, this.roles(), (tensor) => tensors.class[tensor]);
      },
    });
  }

  draw(state: State): void {
    const pool = state.rank.pools[state.pool];
    if (pool !== this.of || !pool) this.change(state.rank, state.pool);
    if (!pool || this.why(state.rank, state.pool)) return;
    this.chart.draw(state, {
      curves: [pool.held],
      label: chartLabel(state.rank, pool),
      unit: bankWords(pool.extent).axis,
      snapTo: { curve: pool.held, tolerance: pool.quantum },
      prepare: (window) => this.prepare(pool, window),
    });
    if (this.chart.area && !this.highlight.isConnected) this.chart.area.prepend(this.highlight);
  }

  private roles(): string[] {
    return this.rank.classes.map((name) => `class-${name}`);
  }

  /** Switches to another pool, possibly of another rank. */
  private change(rank: Rank, pool: number): void {
    this.rank = rank;
    this.of = rank.pools[pool];
    this.stack = undefined;
    this.unknown = countUnknown(rank, pool);
    fill(this.poolName, this.of?.name ?? "");
    const why = this.why(rank, pool);
    if (why) {
      fill(this.body, h("p", { class: "note" }, why));
      return;
    }
    const seen = classesIn(rank, pool);
    this.keys.length = 0;
    rank.classes.forEach((name, index) => {
      if (seen.has(index)) this.keys.push({ label: className(name), color: `class-${name}`, look: "block" });
    });
    this.keys.push({ label: "unexplained", color: "unexplained", look: "hatched" });
    fill(this.body, this.chart.element, this.note);
  }

  /** The reason why the chart is empty; `null` if it is not. */
  private why(rank: Rank, pool: number): string | null {
    const name = rank.pools[pool]?.name;
    if (name === undefined) return "The input has no memory pools.";
    if (!rank.hasTensors && rank.hasResults) {
      return "The input does not say when the operations' results were freed, so memory can't be attributed to tensors.";
    }
    if (!rank.hasTensors && !isTenstorrent(rank.summary)) {
      return "The input does not list tensors, so memory can't be attributed to tensors.";
    }
    if (!rank.hasTensors) {
      return (
        "The log does not list tensors, so memory can't be attributed to tensors. " +
        "To log operations and their types, set TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG."
      );
    }
    if (classesIn(rank, pool).size === 0) {
      return isTenstorrent(rank.summary)
        ? `The log has no named tensors in ${name}.`
        : `No tensors were tracked in ${name}.`;
    }
    return null;
  }

  private prepare(pool: Pool, { from, to, width, fits }: Window): number {
    const columns = sampleColumns(pool.held, from, to, Math.max(1, Math.floor(width)));
    const high = columns.held.reduce((max, bytes) => Math.max(max, bytes || 0), 0);
    const low = fits ? columns.held.reduce((min, bytes) => Math.min(min, bytes || min), high) : 0;
    const { tensors, classes, summary } = this.rank;
    const restless = isTenstorrent(summary) ? RESTLESS : RESTLESS_UNCOMPILED;
    this.stack = stackTensors(tensors, columns, {
      pool: pool.index,
      restless: classes.map((name) => restless.includes(name)),
      maxByArea: MAX_BY_AREA,
      maxBySize: MAX_BY_SIZE,
      minBytes: ((high - low) / HEIGHT) * MIN_PIXELS,
      onlyChanging: fits,
    });
    fill(this.note, noteOf(this.stack, this.unknown));
    return this.stack.top.reduce((max, bytes) => Math.max(max, bytes), 0);
  }

  private describe(spot: Spot | null): Node | null {
    const { stack, rank } = this;
    const area = this.chart.area;
    if (!spot || !stack || !area || !this.of) {
      this.setHighlight(null);
      return null;
    }
    const width = stack.columns.moments.length;
    const column = Math.min(width - 1, Math.floor((spot.left / Math.max(1, area.clientWidth)) * width));
    const hit = hitAt(stack, column, this.chart.valueAt(spot.top));
    this.setHighlight(hit?.kind === "tensor" ? hit.band : null);
    const title = h("div", { class: "where" }, momentTitle(rank, spot.moment));
    return h(
      "div",
      {},
      ...hitLines(rank, this.of, hit, column),
      title,
      this.sums(spot.moment, column, stack),
    );
  }

  private sums(moment: number, column: number, stack: Stack): HTMLElement {
    const allocated: Fact = ["Allocated", size(this.of?.held.valueAt(moment) ?? null)];
    return factGrid([
      allocated,
      ["Tensors", size(stack.top[column]), counted(stack.tensors[column], "tensor")],
    ]);
  }

  /** Outlines a band on a separate canvas, so that the chart is not redrawn. */
  private setHighlight(band: Band | null): void {
    if (this.highlighted === band) return;
    this.highlighted = band;
    const { paint, stack, highlight } = this;
    const context = highlight.getContext("2d");
    if (!paint || !stack || !context) return;
    highlight.width = Math.round(paint.width);
    highlight.height = Math.round(paint.height);
    if (!band) return;
    context.translate(-paint.left, -paint.top);
    context.fillStyle = "rgb(255 255 255 / 25%)";
    context.strokeStyle = paint.colors.get("ink");
    context.lineWidth = 1.5 * paint.ratio;
    bandPath({ ...paint, context }, stack, band);
    context.fill();
    context.stroke();
  }
}

const classesSeen = new WeakMap<Rank, Set<number>[]>();

/** The classes of a pool's tensors. */
function classesIn(rank: Rank, pool: number): Set<number> {
  let seen = classesSeen.get(rank);
  if (!seen) {
    seen = rank.pools.map(() => new Set<number>());
    const { pool: of, class: classes } = rank.tensors;
    for (let tensor = 0; tensor < of.length; tensor++) seen[of[tensor]]?.add(classes[tensor]);
    classesSeen.set(rank, seen);
  }
  return seen[pool] ?? new Set();
}

/** The tooltip's lines about the object under the cursor. */
function hitLines(rank: Rank, pool: Pool, hit: Hit, column: number): HTMLElement[] {
  if (!hit) return [];
  const { heading } = bankWords(pool.extent);
  if (hit.kind === "unexplained") {
    return [h("div", {}, h("strong", {}, "unexplained")), factGrid([[heading, size(hit.bytes)]])];
  }
  if (hit.kind === "small") {
    const name = rank.classes[hit.sums.class];
    const text = `${counted(hit.sums.tensors[column], `smaller ${name} tensor`)}`;
    return [
      h("div", {}, h("strong", {}, text)),
      factGrid([[heading, size(hit.sums.bytes[column]), "in total"]]),
    ];
  }
  return tensorLines(rank, heading, hit.band.tensor);
}

function tensorLines(rank: Rank, heading: string, tensor: number): HTMLElement[] {
  const { type, class: classes, perBank, step, dies } = rank.tensors;
  const allocated = step[tensor];
  const kind = type[tensor] < 0 ? "" : ` ${rank.typeText(type[tensor])}`;
  const [dead, gone] = [rank.diesStep(tensor), rank.goneBeforeStep(tensor)];
  const facts: Fact[] = [
    [heading, size(perBank[tensor]), rank.classes[classes[tensor]]],
    allocated < 0
      ? ["Allocated by", "–", "before the first step"]
      : ["Allocated by", `step ${count(allocated)}`, rank.opName(allocated)],
  ];
  if (dies[tensor] === NEVER) facts.push(["Freed by", "never"]);
  else if (dead !== null)
    facts.push(["Freed by", `step ${count(dead)}`, dead < rank.end ? rank.opName(dead) : ""]);
  else if (gone !== null) facts.push(["Freed by", "–", `between programs, before step ${count(gone)}`]);
  const name = shorten(rank.tensorNameOrOrigin(tensor) ?? "unnamed tensor", 56);
  return [
    h("div", {}, h("strong", {}, name), h("span", { class: "mono" }, kind)),
    ...stackElements(rank, rank.stackOf(tensor)),
    factGrid(facts),
  ];
}

function countUnknown(rank: Rank, pool: number): number {
  const { pool: of, perBank } = rank.tensors;
  let unknown = 0;
  for (let tensor = 0; tensor < of.length; tensor++) {
    if (of[tensor] === pool && Number.isNaN(perBank[tensor])) unknown += 1;
  }
  return unknown;
}

/** The note below the chart: the number of individual bands and of skipped tensors. */
function noteOf(stack: Stack, unknown: number): string {
  const small = stack.small.length > 0 ? " Smaller ones are summed by class (paler)." : "";
  const skipped = unknown > 0 ? ` ${counted(unknown, "tensor")} of unknown size skipped.` : "";
  return `${counted(stack.bands.length, "tensor")} drawn individually, oldest at the bottom.${small}${skipped}`;
}

function chartLabel(rank: Rank, pool: Pool): string {
  const peak = rank.summary.peaks[pool.name];
  const start = `Tensors in ${pool.name} over time, as stacked bands up to the allocated memory${bankWords(pool.extent).perBank}.`;
  if (!peak || peak.allocated_per_bank === null) return start;
  const classes = Object.entries(peak.by_class_per_bank ?? {})
    .map(([name, bytes]) => `${name} ${percent(bytes, peak.allocated_per_bank ?? 0)}`)
    .join(", ");
  return `${start} At the peak of ${size(peak.allocated_per_bank)}: ${classes || "no tensors"}.`;
}
