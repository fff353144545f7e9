// Tile padding: what tensors take beyond their elements, over time and by operation.

import "./charts.css";
import { LineChart } from "../charts/line-chart";
import { factGrid, momentHead } from "../charts/moment-facts";
import { paddingCurves, type Waste, wasteAt } from "../charts/padding-curves";
import type { Rank } from "../data/report";
import { fill, h } from "../dom";
import { count, counted, percent, shorten, size, sizeElement } from "../format";
import { jumpTo } from "../jump";
import { type Section, section } from "../section";
import type { State, Store } from "../state";

const MOST = 10;

export function paddingSection(store: Store): Section {
  const depends = ["rank", "pool", "from", "to", "moment", "run", "theme"] as const;
  return section(store, "padding", "Tile padding", depends, (body, head) => {
    const view = new PaddingView(store, body, head);
    return (state) => view.draw(state);
  });
}

class PaddingView {
  private readonly totals = h("p", { class: "note padding-totals" });
  private readonly chartBox = h("div");
  private readonly table = h("div", { class: "chart-table" });
  private readonly chart: LineChart;
  private rank: Rank | undefined;
  private pool: number | undefined;

  constructor(
    private readonly store: Store,
    private readonly body: HTMLElement,
    head: HTMLElement,
  ) {
    head.append(this.totals);
    this.chart = new LineChart(store, {
      height: 220,
      lines: [
        { label: "padded: what they take", color: "largest-free", look: "solid", width: 1.5 },
        { label: "logical: their elements", color: "free", look: "area", width: 1.5, fill: 0.18 },
      ],
      between: { upper: 0, lower: 1, color: "largest-free", share: 0.3 },
      keys: [],
      fitTo: 2,
      describe: (spot) => spot && this.describe(spot.moment),
    });
  }

  draw(state: State): void {
    const { rank, pool } = state;
    if (rank !== this.rank) this.changeRank(rank);
    if (!rank.summary.padding) return;
    if (pool !== this.pool) this.changePool(rank, pool);
    const curves = paddingCurves(rank, pool);
    if (curves.known === 0) return;
    this.chart.draw(state, {
      curves: [curves.padded, curves.logical],
      label: `Padded and logical bytes of the tensors in ${rank.pools[pool]?.name} over time, on one device.`,
      unit: "of the device",
      snapTo: { curve: curves.padded, tolerance: 0 },
    });
  }

  private changeRank(rank: Rank): void {
    this.rank = rank;
    this.pool = undefined;
    const padding = rank.summary.padding;
    fill(this.totals);
    if (!padding) {
      fill(this.body, h("p", { class: "note" }, whyUnknown(rank)));
      return;
    }
    const overhead = padding.padded_bytes - padding.logical_bytes;
    const share = padding.overhead_pct === null ? "" : ` (${padding.overhead_pct} % of logical)`;
    fill(
      this.totals,
      `at the peak of ${peakPool(rank)?.name ?? "the pool"}: padded `,
      sizeElement(padding.padded_bytes),
      ", logical ",
      sizeElement(padding.logical_bytes),
      ", overhead ",
      sizeElement(overhead),
      share,
    );
    const meaning =
      "Tensors in tile layout are stored as whole tiles, mostly of 32×32 elements: the last two dimensions are " +
      "rounded up, and the elements that fill the tiles take memory and hold nothing. All sizes are of one device.";
    fill(this.body, h("p", { class: "note" }, meaning), this.chartBox, this.table);
    fill(this.table, ...wasteTable(rank));
  }

  private changePool(rank: Rank, pool: number): void {
    this.pool = pool;
    const name = rank.pools[pool]?.name ?? "this pool";
    const { known, unknown } = paddingCurves(rank, pool);
    if (known === 0) {
      const why = unknown > 0 ? "of known type and size" : "that the log names";
      fill(this.chartBox, h("p", { class: "note" }, `No tensor ${why} was ever in ${name}.`));
      return;
    }
    const left = `${counted(unknown, "tensor")} left out: their type, or the size of it, is not known.`;
    fill(
      this.chartBox,
      h("h3", {}, `${name} over time`),
      this.chart.element,
      unknown > 0 && h("p", { class: "note" }, left),
    );
  }

  private describe(moment: number): Node {
    const { rank, pool } = this.store.state;
    const curves = paddingCurves(rank, pool);
    const [padded, logical] = [curves.padded.valueAt(moment), curves.logical.valueAt(moment)];
    const share = logical > 0 ? `${percent(padded - logical, logical)} of logical` : "";
    const facts = factGrid([
      ["Padded", size(padded)],
      ["Logical", size(logical)],
      ["Padding", size(padded - logical), share],
    ]);
    return h("div", {}, ...momentHead(rank, moment), facts);
  }
}

/** The pool whose peak the totals and the table are about. */
const peakPool = (rank: Rank) => rank.pools.find((pool) => pool.name === "DRAM") ?? rank.pools[0];

function whyUnknown(rank: Rank): string {
  if (!rank.hasTensors && rank.hasResults) {
    return "It is not known which tensors are alive at the peak, so neither is how much of them is padding.";
  }
  if (!rank.hasTensors) {
    return (
      "The log names no tensors: without their shapes and layouts nobody can say how much of them is padding. " +
      "Capture it with TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG."
    );
  }
  return "The types of the tensors that are alive at the peak are not known, so neither is their padding.";
}

function wasteTable(rank: Rank): (Node | string)[] {
  const pool = peakPool(rank);
  const title = h(
    "h3",
    {},
    `Top ${MOST} operations by bytes wasted, at the peak of ${pool?.name ?? "the pool"}`,
  );
  const rows = pool && pool.peakMoment !== null ? wasteAt(rank, pool.index, pool.peakMoment, MOST) : [];
  if (rows.length === 0)
    return [title, h("p", { class: "note" }, "No tensor that is alive there is padded.")];
  const heads = [
    "Operation",
    "Shape",
    "Padded shape",
    "Tensors",
    "Wasted",
    "Of logical",
    "Tile-friendly shape",
    "For example",
  ];
  const isNumber = (index: number) => index >= 3 && index <= 5;
  const head = heads.map((text, index) =>
    h("th", { scope: "col", class: isNumber(index) && "number" }, text),
  );
  const table = h(
    "table",
    {},
    h("thead", {}, h("tr", {}, head)),
    h(
      "tbody",
      {},
      rows.map((row) => wasteRow(rank, row)),
    ),
  );
  return [title, h("div", { class: "table-box" }, table)];
}

function wasteRow(rank: Rank, row: Waste): HTMLElement {
  const { types, tensors } = rank;
  const step = tensors.step[row.example];
  const operation =
    row.operation === null
      ? h("span", {}, "argument")
      : h(
          "button",
          { class: "link mono", type: "button", onclick: () => jumpTo("operations", step) },
          row.operation,
        );
  const shape = (id: number) =>
    id < 0 ? h("span", { class: "unknown" }, "–") : h("code", {}, rank.text(id) || "scalar");
  const name = rank.tensorName(row.example) ?? "–";
  return h(
    "tr",
    {},
    h("td", {}, operation),
    h("td", {}, h("code", {}, rank.typeText(row.type))),
    h("td", {}, shape(types.paddedShape[row.type])),
    h("td", { class: "number" }, count(row.count)),
    h("td", { class: "number" }, sizeElement(row.wasted)),
    h("td", { class: "number" }, row.logical > 0 ? overheadText(row.wasted / row.logical) : "–"),
    h("td", {}, shape(types.friendly[row.type])),
    h("td", { title: name }, h("code", {}, shorten(name, 36))),
  );
}

/** `13 %`, `6,300 %`; small shares with a digit more. */
function overheadText(share: number): string {
  const rounded = share < 0.1 ? Math.round(share * 1000) / 10 : Math.round(share * 100);
  return `${count(rounded)} %`;
}
