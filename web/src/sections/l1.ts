// The L1 of a core: its parts at the peak, the headroom over time, and a map of its addresses while a step runs.

import "./charts.css";
import "./header.css";
import "./l1.css";
import { LineChart, type Paint } from "../charts/line-chart";
import { type Fact, factGrid, operationLines, stepNextTo } from "../charts/moment-facts";
import { rowFrom } from "../charts/resample";
import { Flag, type L1 } from "../data/l1";
import type { Rank } from "../data/report";
import { fill, h, save } from "../dom";
import { count, shorten, sizeElementIn, sizeIn } from "../format";
import { type Contents, contentsOf } from "../l1/contents";
import { type Core, type CoreClasses, classesOf, coreText, fullestFirst, hasCore } from "../l1/cores";
import { figures } from "../l1/figures";
import { CoreGrid } from "../l1/grid";
import { headroomCurves, lowestCurves } from "../l1/headroom";
import { drawMap, type MapContent, selectSegment } from "../l1/map";
import { isProgramUnknown, segmentsOf } from "../l1/segments";
import { SegmentTable } from "../l1/table";
import { onRedraw } from "../redraw";
import { type Section, section } from "../section";
import type { State, Store } from "../state";

export function l1Section(store: Store): Section {
  const depends = ["rank", "from", "to", "moment", "run", "theme"] as const;
  return section(store, "l1", "L1 of a core", depends, (body) => {
    const view = new L1View(store, body);
    return (state) => view.draw(state);
  });
}

/** The step that the map shows: the one next to the pinned moment, or the first or last one. */
function shownStep(rank: Rank, moment: number): number | null {
  if (rank.end === 0) return null;
  return stepNextTo(rank, moment) ?? (moment === 0 ? 0 : rank.end - 1);
}

class L1View {
  private readonly figures = h("div", {});
  private readonly chartTitle = h("h3", { class: "l1-chart-title" }, "Headroom over time");
  private readonly chart: LineChart;
  private readonly title = h("h3", { class: "l1-title" });
  private readonly facts = h("p", { class: "note", "data-fact": "l1-step" });
  private readonly map = h("div", { class: "l1-map" });
  private readonly cores: CoreGrid;
  private table: SegmentTable | undefined;
  private readonly tableBox = h("div", { class: "l1-table" });
  private readonly csv = h("button", { type: "button" }, "Save as CSV");
  private readonly previous: HTMLButtonElement;
  private readonly next: HTMLButtonElement;
  private rank: Rank | undefined;
  /** The core that the user chose; `null` for the fullest one. */
  private chosen: Core | null = null;
  private drawn: MapContent | undefined;
  /** The index of the selected segment. */
  private selected: number | null = null;
  private drawnKey = "";

  constructor(
    private readonly store: Store,
    private readonly body: HTMLElement,
  ) {
    this.chart = new LineChart(store, {
      height: 240,
      lines: [
        { label: "headroom", color: "free", look: "area", width: 1.5, fill: 0.18 },
        {
          label: "at most",
          title: "The program's buffers are unknown: the actual headroom may be smaller",
          color: "free",
          look: "dashed",
          width: 1.5,
          dash: [4, 3],
        },
      ],
      keys: [],
      fitTo: 2,
      isSigned: true,
      describe: (spot) => spot && this.describe(spot.moment),
      flag: (moment) => `while step ${count(shownStep(store.state.rank, moment) ?? 0)} runs`,
      over: (paint) => this.paintOverlaps(paint),
    });
    this.cores = new CoreGrid((core) => this.choose(core));
    const button = (text: string, label: string, turn: 1 | -1) =>
      h(
        "button",
        { type: "button", title: label, "aria-label": label, onclick: () => this.turn(turn) },
        text,
      );
    this.previous = button("◀", "Previous program", -1);
    this.next = button("▶", "Next program", 1);
    this.csv.addEventListener("click", () => save("l1.csv", this.table?.csv() ?? ""));
    new ResizeObserver(() => this.redrawMap()).observe(this.map);
    onRedraw(() => this.redrawMap());
  }

  draw(state: State): void {
    const { rank } = state;
    if (rank !== this.rank) this.changeRank(rank);
    const { l1 } = rank;
    const step = shownStep(rank, state.moment);
    if (!l1 || step === null) return;
    const { known, atMost, inverted } = headroomCurves(l1);
    const lowest = rank.summary.l1?.lowest_headroom;
    const bytes = lowest?.headroom ?? null;
    this.chart.draw(state, {
      curves: [known, atMost],
      curvesIn: (window) => lowestCurves(headroomCurves(l1), l1.steps, window),
      label:
        `Headroom of a core's L1 over time: lowest ` +
        `${bytes === null ? "unknown" : sizeIn(bytes, l1.outline.size)}` +
        `${lowest ? ` while step ${count(lowest.step)} runs` : ""}. Arrow keys move the pinned step.`,
      unit: "per core",
      snapTo: { curve: inverted, tolerance: 0 },
    });
    this.drawStep(rank, l1, step);
  }

  private changeRank(rank: Rank): void {
    this.rank = rank;
    this.chosen = null;
    this.drawn = undefined;
    this.drawnKey = "";
    const { l1: summary } = rank.summary;
    const isEmpty = !rank.l1 || rank.end === 0;
    fill(this.figures, ...(summary ? figures(this.store, summary) : []));
    if (!rank.l1 || isEmpty) {
      fill(this.body, this.figures, !summary && h("p", { class: "note" }, "The input has no data about L1."));
      return;
    }
    this.chart.setKeys(
      headroomCurves(rank.l1).overlaps.length > 0
        ? [{ label: "overlap: does not fit", color: "bad", look: "block" }]
        : [],
    );
    for (const button of [this.previous, this.next]) button.hidden = summary?.programs === 0;
    this.table = new SegmentTable(this.store, rank, rank.l1, (index) => this.select(index));
    fill(this.tableBox, this.table.element);
    fill(
      this.body,
      this.figures,
      this.chartTitle,
      this.chart.element,
      h(
        "div",
        { class: "l1-head" },
        this.title,
        this.previous,
        this.next,
        h("span", { class: "spacer" }),
        this.csv,
      ),
      this.facts,
      h("div", { class: "l1-detail" }, this.cores.element, this.map, this.tableBox),
    );
  }

  private choose(core: Core): void {
    this.chosen = core;
    this.draw(this.store.state);
  }

  /** Pins the next or previous step that runs a program. */
  private turn(by: 1 | -1): void {
    const { rank, moment } = this.store.state;
    const found = programFrom(rank, shownStep(rank, moment), by);
    if (found !== null) this.store.pin(found);
  }

  private drawStep(rank: Rank, l1: L1, step: number): void {
    this.previous.disabled = programFrom(rank, step, -1) === null;
    this.next.disabled = programFrom(rank, step, 1) === null;
    const key = `${step} ${this.chosen}`;
    if (key === this.drawnKey) return;
    this.drawnKey = key;
    const contents = contentsOf(rank, l1, step);
    const classes = classesOf(contents);
    const core = coreOf(classes, this.chosen);
    this.cores.show(classes, core, contents);
    const segments = segmentsOf(contents, core);
    fill(this.title, ...titleOf(rank, contents, classes, core));
    fill(this.facts, ...factsOf(rank, contents, classes, core));
    this.table?.show(segments);
    this.selected = null;
    this.drawn = {
      rank,
      outline: l1.outline,
      segments,
      remark: isProgramUnknown(contents) ? "program buffers unknown" : null,
      label: `Map of L1, ${this.title.textContent}. The table lists all segments.`,
    };
    this.redrawMap();
  }

  private redrawMap(): void {
    if (!this.drawn) return;
    drawMap(this.map, this.drawn, (index) => {
      this.table?.choose(index);
      this.select(index);
    });
    this.select(this.selected);
  }

  private select(index: number | null): void {
    this.selected = index;
    selectSegment(this.map, index);
  }

  private describe(moment: number): Node | null {
    const { rank } = this.store.state;
    const step = stepNextTo(rank, moment);
    if (!rank.l1 || step === null) return null;
    return h(
      "div",
      {},
      h("div", {}, h("strong", {}, `while step ${count(step)} runs`)),
      ...operationLines(rank, step),
      factGrid(headroomFacts(rank.l1, step)),
    );
  }

  /** Paints the steps that don't fit, at least two pixels wide, so that a single one of many steps is visible. */
  private paintOverlaps(paint: Paint): void {
    const { l1 } = this.store.state.rank;
    if (!l1) return;
    const { context, ratio, from, to } = paint;
    const { overlaps } = headroomCurves(l1);
    const zero = paint.y(0);
    context.fillStyle = paint.colors.get("bad");
    for (
      let row = rowFrom(overlaps, Math.floor(from));
      row < overlaps.length && overlaps[row] <= to + 1;
      row++
    ) {
      const step = overlaps[row];
      const [left, right] = [paint.x(Math.max(from, step - 0.5)), paint.x(Math.min(to, step + 0.5))];
      if (right < paint.left) continue;
      const width = Math.max(2 * ratio, right - left);
      context.fillRect((left + right - width) / 2, zero, width, paint.y(l1.steps.headroom[step]) - zero);
    }
    if (overlaps.length > 0) {
      context.fillStyle = paint.colors.get("ink-3");
      context.fillRect(paint.left, Math.round(zero), paint.width, Math.max(1, ratio));
    }
  }
}

/** The next or previous step that runs a program; `null` if there is none. */
function programFrom(rank: Rank, from: number | null, by: 1 | -1): number | null {
  const flags = rank.l1?.steps.flags;
  if (!flags || from === null) return null;
  for (let step = from + by; step >= 0 && step < flags.length; step += by) {
    if (flags[step] & Flag.Runs) return step;
  }
  return null;
}

/** The chosen core, if it exists in this grid, or else the core whose program buffers end highest. */
function coreOf({ grid, classes }: CoreClasses, chosen: Core | null): Core {
  const [width, height] = grid ?? [1, 1];
  if (chosen && chosen[0] < width && chosen[1] < height) return chosen;
  return classes[fullestFirst(classes)[0]].cores[0];
}

/** `Core (0, 0) while step 28, ttnn.matmul, runs` */
function titleOf(
  rank: Rank,
  { step, flags, headroom, outline }: Contents,
  { classes }: CoreClasses,
  core: Core,
): (Node | string)[] {
  const which = classes.length > 1 ? `Core ${coreText(core)}` : "Any core";
  const isTooMuch = outline.is_estimate && headroom < 0;
  const end = flags & Flag.Failed ? "tries to run" : isTooMuch ? "would run" : "runs";
  return [`${which} while step ${count(step)}, `, h("code", {}, rank.opName(step)), `, ${end}`];
}

function factsOf(
  rank: Rank,
  contents: Contents,
  { grid, classes, classOf }: CoreClasses,
  core: Core,
): (Node | string | false)[] {
  const { lowest, outline, step } = contents;
  const own = classes[grid ? classOf[core[1] * grid[0] + core[0]] : 0];
  const facts: (Node | string)[][] = [];
  const loc = rank.opLoc(step);
  if (loc) facts.push([shorten(loc, 120)]);
  facts.push([programFact(contents, core, own.end)]);
  if (!Number.isNaN(lowest)) {
    const hasTensors = contents.tensors.some(({ isSmall }) => !isSmall);
    facts.push([hasTensors ? `lowest tensor at ${count(lowest)}` : "no tensors"]);
    const isBound = isProgramUnknown(contents) ? "at most " : "";
    facts.push([
      lowest < own.end ? "overlap " : `headroom ${isBound}`,
      sizeElementIn(Math.abs(lowest - own.end), outline.size),
    ]);
  }
  if (classes.length < 2)
    facts.push([grid ? `All ${count(grid[0] * grid[1])} cores are equal` : "All cores are equal"]);
  const line = facts.flatMap((fact, index) => (index > 0 ? [" · ", ...fact] : fact));
  const estimate =
    "Estimate: nothing ran, so tensors have no addresses. They are drawn from the top without gaps.";
  const unknown = contents.tensors.some(({ start, bytes }) => Number.isNaN(start + bytes));
  return [
    ...line,
    outline.is_estimate && h("span", { class: "l1-estimate" }, estimate),
    unknown &&
      h("span", { class: "l1-estimate" }, "Tensors of unknown address or size are only in the table."),
  ];
}

/** Where the program's buffers end on a core. */
function programFact(contents: Contents, core: Core, end: number): string {
  const { flags, buffers, region } = contents;
  if (!(flags & Flag.Runs)) return "No program runs";
  if (isProgramUnknown(contents)) return "The program's buffers are unknown";
  const here = buffers.filter(({ cores }) => hasCore(cores, core));
  if (here.length === 0 && !region) return "The program has no buffers on this core";
  if (here.length > 0 && here.every(({ borrowed }) => borrowed)) {
    return "The program's buffers use the memory of tensors";
  }
  return `Program buffers ${flags & Flag.Failed ? "would end" : "end"} at ${count(end)}`;
}

function headroomFacts({ steps, outline }: L1, step: number): Fact[] {
  const [bytes, flags] = [steps.headroom[step], steps.flags[step]];
  const bound = flags & Flag.AtMost ? "at most" : "";
  const program = !(flags & Flag.Runs) ? "no program runs" : bound && "buffers unknown";
  const headroom = Number.isNaN(bytes) ? "unknown" : sizeIn(Math.abs(bytes), outline.size);
  return [
    bytes < 0 ? ["Overlap", headroom, "does not fit"] : ["Headroom", headroom, bound],
    ["Program buffers end", bound ? "unknown" : count(steps.end[step]), bound ? "" : program],
    ["Lowest tensor", Number.isNaN(steps.lowest[step]) ? "unknown" : count(steps.lowest[step])],
  ];
}
