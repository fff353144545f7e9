// Tensors over time: whose the allocated bytes are, as bands stacked up to the curve.

import "./tensors.css";
import { bankWords } from "../banks";
import { bandPath, paintStack } from "../charts/band-painter";
import { type Band, type Hit, hitAt, type Stack, sampleColumns, stackTensors } from "../charts/bands";
import type { Key } from "../charts/legend";
import { LineChart, type Paint, type Window } from "../charts/line-chart";
import { type Fact, factGrid, momentTitle } from "../charts/moment-facts";
import type { Spot } from "../charts/time-overlay";
import { NEVER, type Pool, type Rank } from "../data/report";
import { isTenstorrent } from "../data/summary";
import { fill, h } from "../dom";
import { count, counted, percent, shorten, size } from "../format";
import { type Section, section } from "../section";
import type { State, Store } from "../state";

const HEIGHT = 320;
/** So many tensors are drawn singly because they take most of the picture, and so many because they are largest. */
const WIDEST = 56;
const LARGEST = 24;
/** Classes whose tensors come and go all the time. */
const RESTLESS = ["activation", "gradient", "temporary"];
/** Without a compiler nobody declares what is there before: what has no class came and went too fast to get one. */
const RESTLESS_UNCOMPILED = [...RESTLESS, "unknown"];
/** And only if they are so many pixels high. */
const LEAST_PIXELS = 1.5;

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
  /** How many tensors of the pool have no known size. */
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

  /** Another pool, maybe of another rank. */
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
      if (seen.has(index)) this.keys.push({ label: name, color: `class-${name}`, look: "block" });
    });
    this.keys.push({ label: "not explained by tensors", color: "unexplained", look: "hatched" });
    fill(this.body, this.chart.element, this.note);
  }

  /** Why there is nothing to draw; `null` where there is. */
  private why(rank: Rank, pool: number): string | null {
    const name = rank.pools[pool]?.name;
    if (name === undefined) return "The log has no memory pools.";
    if (!rank.hasTensors && rank.hasResults) {
      return "It is not known when the results of the operations were given back, so nobody can say whose the bytes are.";
    }
    if (!rank.hasTensors && !isTenstorrent(rank.summary)) {
      return "What this was read from names no tensors, so nobody can say whose the bytes are.";
    }
    if (!rank.hasTensors) {
      return (
        "The log names no tensors, so nobody can say whose the bytes are: " +
        "capture it with TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG, which prints the operations and their types."
      );
    }
    if (classesIn(rank, pool).size === 0) {
      return isTenstorrent(rank.summary)
        ? `No tensor that the log names was ever in ${name}.`
        : `No tensor was ever seen in ${name}.`;
    }
    return null;
  }

  private prepare(pool: Pool, { from, to, width, fits }: Window): number {
    const columns = sampleColumns(pool.held, from, to, Math.max(1, Math.floor(width)));
    const high = columns.held.reduce((most, bytes) => Math.max(most, bytes || 0), 0);
    const low = fits ? columns.held.reduce((least, bytes) => Math.min(least, bytes || least), high) : 0;
    const { tensors, classes, summary } = this.rank;
    const restless = isTenstorrent(summary) ? RESTLESS : RESTLESS_UNCOMPILED;
    this.stack = stackTensors(tensors, columns, {
      pool: pool.index,
      restless: classes.map((name) => restless.includes(name)),
      most: WIDEST,
      largest: LARGEST,
      least: ((high - low) / HEIGHT) * LEAST_PIXELS,
      onlyChanging: fits,
    });
    fill(this.note, noteOf(this.stack, this.unknown));
    return this.stack.top.reduce((most, bytes) => Math.max(most, bytes), 0);
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

  /** Draws a line around a band, on a canvas of its own: the chart stays as it is. */
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

/** The classes that tensors of a pool have. */
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

/** What a tooltip says of what is under the cursor. */
function hitLines(rank: Rank, pool: Pool, hit: Hit, column: number): HTMLElement[] {
  if (!hit) return [];
  const { heading } = bankWords(pool.extent);
  if (hit.kind === "unexplained") {
    return [
      h("div", {}, h("strong", {}, "not explained by tensors")),
      factGrid([[heading, size(hit.bytes)]]),
    ];
  }
  if (hit.kind === "small") {
    const name = rank.classes[hit.sums.class];
    const text = `${counted(hit.sums.tensors[column], `smaller ${name} tensor`)}`;
    return [
      h("div", {}, h("strong", {}, text)),
      factGrid([[heading, size(hit.sums.bytes[column]), "together"]]),
    ];
  }
  return tensorLines(rank, heading, hit.band.tensor);
}

function tensorLines(rank: Rank, heading: string, tensor: number): HTMLElement[] {
  const { type, class: classes, perBank, step, dies } = rank.tensors;
  const made = step[tensor];
  const kind = type[tensor] < 0 ? "" : ` ${rank.typeText(type[tensor])}`;
  const [dead, gone] = [rank.diesStep(tensor), rank.goneBeforeStep(tensor)];
  const facts: Fact[] = [
    [heading, size(perBank[tensor]), rank.classes[classes[tensor]]],
    made < 0
      ? ["Made by", "–", "was there before the program"]
      : ["Made by", `step ${count(made)}`, rank.opName(made)],
  ];
  if (dies[tensor] === NEVER) facts.push(["Freed by", "–", "is there to the end"]);
  else if (dead !== null)
    facts.push(["Freed by", `step ${count(dead)}`, dead < rank.end ? rank.opName(dead) : ""]);
  else if (gone !== null) facts.push(["Gone", "–", `between programs, before step ${count(gone)}`]);
  const name = shorten(rank.tensorNameOrMaker(tensor) ?? "unnamed tensor", 56);
  return [h("div", {}, h("strong", {}, name), h("span", { class: "mono" }, kind)), factGrid(facts)];
}

function countUnknown(rank: Rank, pool: number): number {
  const { pool: of, perBank } = rank.tensors;
  let unknown = 0;
  for (let tensor = 0; tensor < of.length; tensor++) {
    if (of[tensor] === pool && Number.isNaN(perBank[tensor])) unknown += 1;
  }
  return unknown;
}

/** How much of the picture is single tensors. */
function noteOf(stack: Stack, unknown: number): string {
  const small = stack.small.length > 0 ? " Smaller ones are added up by class, paler." : "";
  const left = unknown > 0 ? ` ${counted(unknown, "tensor")} of unknown size left out.` : "";
  return `${counted(stack.bands.length, "tensor")} drawn singly, the oldest lowest.${small}${left}`;
}

function chartLabel(rank: Rank, pool: Pool): string {
  const peak = rank.summary.peaks[pool.name];
  const start = `Tensors in ${pool.name} over time, as bands stacked up to the allocated bytes${bankWords(pool.extent).ofABank}.`;
  if (!peak || peak.allocated_per_bank === null) return start;
  const classes = Object.entries(peak.by_class_per_bank ?? {})
    .map(([name, bytes]) => `${name} ${percent(bytes, peak.allocated_per_bank ?? 0)}`)
    .join(", ");
  return `${start} At the peak of ${size(peak.allocated_per_bank)}: ${classes || "no tensors"}.`;
}
