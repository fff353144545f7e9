// Tile padding: the memory that tensors take beyond their elements, over time and by operation.

import "./charts.css";
import { LineChart } from "../charts/line-chart";
import { factGrid, momentHead, positionTitle } from "../charts/moment-facts";
import { paddingCurves, type Waste, wasteAt } from "../charts/padding-curves";
import type { Rank } from "../data/report";
import { fill, h } from "../dom";
import { count, counted, percent, shorten, size, sizeElement } from "../format";
import { jumpTo } from "../jump";
import { type Heading, plainTable } from "../plain-table";
import { type Section, section } from "../section";
import type { State, Store } from "../state";

const MAX_ROWS = 10;
/** The columns that a narrow window does not show. */
const MINOR = ["Padded shape", "Example"];

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
        { label: "on the device, padded", color: "largest-free", look: "solid", width: 1.5 },
        { label: "data size", color: "free", look: "area", width: 1.5, fill: 0.18 },
      ],
      between: [{ upper: 0, lower: 1, color: "largest-free", share: 0.3 }],
      keys: [],
      fitTo: 2,
      describe: (spot) => spot && this.describe(spot.moment),
      flag: (moment) => positionTitle(store.state.rank, moment),
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
      label: `Padded size and data size of the tensors in ${rank.pools[pool]?.name} over time, on one device.`,
      unit: "on the device",
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
    const wasted = padding.padded_bytes - padding.logical_bytes;
    fill(
      this.totals,
      `at the ${peakPool(rank)?.name ?? "pool"} peak: `,
      sizeElement(wasted),
      " of ",
      sizeElement(padding.padded_bytes),
      ` on the device (${percent(wasted, padding.padded_bytes)})`,
    );
    const meaning =
      "Tensors in tile layout are stored as whole tiles of 32x32 elements, so their last two dimensions are rounded up. " +
      "Overhead is the padding relative to the data size. All sizes are for one device.";
    fill(this.body, h("p", { class: "note" }, meaning), this.chartBox, this.table);
    fill(this.table, ...wasteTable(rank));
  }

  private changePool(rank: Rank, pool: number): void {
    this.pool = pool;
    const name = rank.pools[pool]?.name ?? "this pool";
    const { known, unknown } = paddingCurves(rank, pool);
    if (known === 0) {
      const which = unknown > 0 ? "tensors of known type and size" : "named tensors";
      fill(this.chartBox, h("p", { class: "note" }, `The input has no ${which} in ${name}.`));
      return;
    }
    const skipped = `${counted(unknown, "tensor")} skipped: type or size unknown.`;
    fill(
      this.chartBox,
      h("h3", {}, `${name} over time`),
      this.chart.element,
      unknown > 0 && h("p", { class: "note" }, skipped),
    );
  }

  private describe(moment: number): Node {
    const { rank, pool } = this.store.state;
    const curves = paddingCurves(rank, pool);
    const [padded, logical] = [curves.padded.valueAt(moment), curves.logical.valueAt(moment)];
    const facts = factGrid([
      ["On device", size(padded)],
      ["Data size", size(logical)],
      ["Padding", size(padded - logical), padded > 0 ? percent(padded - logical, padded) : ""],
    ]);
    return h("div", {}, ...momentHead(rank, moment), facts);
  }
}

/** The pool whose peak the totals and the table show. */
const peakPool = (rank: Rank) => rank.pools.find((pool) => pool.name === "DRAM") ?? rank.pools[0];

function whyUnknown(rank: Rank): string {
  if (!rank.hasTensors && rank.hasResults) {
    return "Padding is unknown, because the tensors live at the peak are unknown.";
  }
  if (!rank.hasTensors) {
    return (
      "The log does not list tensors, so their padding is unknown. " +
      "To log tensors with shapes and layouts, set TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG."
    );
  }
  return "Padding is unknown, because the types of the tensors live at the peak are unknown.";
}

function wasteTable(rank: Rank): (Node | string)[] {
  const pool = peakPool(rank);
  const title = h("h3", {}, `Operations with the most padding at the ${pool?.name ?? "pool"} peak`);
  const rows = pool && pool.peakMoment !== null ? wasteAt(rank, pool.index, pool.peakMoment, MAX_ROWS) : [];
  if (rows.length === 0) return [title, h("p", { class: "note" }, "No tensor live at the peak is padded.")];
  const heads: Heading[] = [
    ["Operation", false],
    ["Shape", false],
    ["Padded shape", false],
    ["Tensors", true],
    ["Padding", true],
    ["Overhead", true],
    ["Shape with less padding", false],
    ["Example", false],
  ];
  const cells = rows.map((row) => wasteRow(rank, row));
  const { table } = plainTable(heads, cells, null);
  const minor = Array.from(table.querySelectorAll("th"), ({ textContent }) =>
    MINOR.includes(textContent ?? ""),
  );
  for (const row of table.rows)
    for (const [column, cell] of [...row.cells].entries()) cell.classList.toggle("wide-only", minor[column]);
  return [title, h("div", { class: "table-box" }, table)];
}

function wasteRow(rank: Rank, row: Waste): HTMLTableCellElement[] {
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
  return [
    h("td", {}, operation),
    h("td", {}, h("code", {}, rank.typeText(row.type))),
    h("td", {}, shape(types.paddedShape[row.type])),
    h("td", { class: "number" }, count(row.count)),
    h("td", { class: "number" }, sizeElement(row.wasted)),
    h("td", { class: "number" }, row.logical > 0 ? overheadText(row.wasted / row.logical) : "–"),
    h("td", {}, shape(types.friendly[row.type])),
    h("td", { title: name }, h("code", {}, shorten(name, 36))),
  ];
}

/** `13%`, `6,300%`; shares below 10% with one decimal. */
function overheadText(share: number): string {
  const rounded = share < 0.1 ? Math.round(share * 1000) / 10 : Math.round(share * 100);
  return `${count(rounded)}%`;
}
