// The heat map: a row per rank, a cell per part of its steps, colored by the share of the capacity.

import "../charts/chart.css";
import { bankWords } from "../banks";
import { colorsNow } from "../charts/colors";
import { fill, h, oncePerFrame } from "../dom";
import { count, counted, partOf, percent, shorten, size } from "../format";
import { prepare } from "../gantt/painter";
import { cssColor, gradient, heatColors } from "./colors";
import { type Fleet, orderOf } from "./data";
import { gutterOf, highest, MARKS, paintHeat } from "./heat-painter";
import { HeatLayout, initialRows, MAX_HEIGHT, type Rows } from "./layout";

const SIZES: readonly [Rows, string][] = [
  ["all", "All in view"],
  ["thin", "Small rows"],
  ["named", "Rows with names"],
];
const MAX_TEXT = 160;
/** The selected row has a box from this height on; thinner ones have a mark of this width on their left. */
const BOXED = 10;
const POINTER = 10;

/** A cell: a row of the map and a part of its steps. Several rows share a pixel if `rows` is above 1. */
interface Spot {
  row: number;
  rows: number;
  part: number;
}

export class HeatMap {
  readonly element: HTMLElement;
  /** Called when a rank is selected with the mouse or the keyboard. */
  onSelect: (rank: number) => void = () => {};
  private readonly canvas = h("canvas", { "aria-hidden": true });
  private readonly space = h("div", {}, this.canvas);
  private readonly scroller = h("div", { class: "heat-scroll" }, this.space);
  private readonly cursor = h("div", { class: "heat-cursor", hidden: true });
  private readonly selection = h("div", { class: "heat-selection", hidden: true });
  private readonly tooltip = h("div", { class: "time-tooltip", role: "tooltip", hidden: true });
  private readonly said = h("p", { class: "visually-hidden", "aria-live": "polite" });
  private readonly host: HTMLElement;
  private readonly scale = h("span", { class: "heat-scale" });
  private readonly unknown = h("span", { class: "swatch" });
  private readonly buttons = new Map<Rows, HTMLButtonElement>();
  private rows: Rows;
  private layout: HeatLayout;
  private order: Uint32Array;
  private spot: Spot | null = null;
  private selected = -1;
  private readonly drawSoon = oncePerFrame(() => this.draw());
  private readonly showSpotSoon = oncePerFrame(() => this.showSpot());

  constructor(private readonly fleet: Fleet) {
    this.rows = initialRows(fleet.groups);
    this.layout = new HeatLayout(fleet.groups, this.rows);
    this.order = orderOf(fleet, false);
    const label = `Heat map of ${counted(fleet.count, "rank")}, with ${fleet.parts} parts of their steps. Arrow keys move, Enter selects a rank.`;
    this.host = h(
      "div",
      { class: "chart heat-chart", tabindex: 0, role: "application", "aria-label": label },
      ...[this.scroller, this.axis(), this.selection, this.cursor, this.tooltip],
    );
    this.element = h("div", {}, this.bar(), this.host, this.said);
    this.scroller.addEventListener("scroll", () => this.drawSoon(), { passive: true });
    this.listen();
    this.resize();
    new ResizeObserver(() => this.drawSoon()).observe(this.host);
  }

  /** Draws in the colors of the current theme. */
  recolor(): void {
    this.drawSoon();
  }

  /** Selects a rank and scrolls to it. */
  show(rank: number): void {
    this.selected = rank;
    const row = this.order.indexOf(rank);
    const top = this.layout.topOf(row);
    const { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop || top + this.layout.row > scrollTop + clientHeight) {
      this.scroller.scrollTop = top - clientHeight / 3;
    }
    this.drawSoon();
  }

  private bar(): HTMLElement {
    const sizes = SIZES.map(([rows, title]) => {
      const button = h("button", { type: "button", onclick: () => this.choose(rows) }, title);
      this.buttons.set(rows, button);
      return button;
    });
    const order = h(
      "select",
      {},
      h("option", { value: "" }, "rank"),
      h("option", { value: "peak" }, "highest peak"),
    );
    order.addEventListener("change", () => {
      this.order = orderOf(this.fleet, order.value === "peak");
      this.drawSoon();
    });
    const isUnknown = this.fleet.ranks.capacity_per_bank.some((capacity) => capacity === null);
    const legend = h(
      "span",
      { class: "heat-legend" },
      ...["0%", this.scale, "100% of the capacity"],
      isUnknown && h("span", {}, this.unknown, "capacity unknown"),
      h("span", {}, h("span", { class: "swatch heat-failed" }), "ran out of memory"),
    );
    const choice = h("label", { class: "heat-order" }, "Order in a run", order);
    return h("div", { class: "chart-bar" }, h("span", { class: "tabs" }, sizes), choice, legend);
  }

  private axis(): HTMLElement {
    return h(
      "div",
      { class: "heat-axis" },
      h("span", {}, "first step"),
      h("span", {}, "steps of each rank"),
      h("span", {}, "last step"),
    );
  }

  private choose(rows: Rows): void {
    const { scrollTop } = this.scroller;
    const { first } = this.layout.rowsIn(scrollTop, scrollTop + 1);
    this.rows = rows;
    this.layout = new HeatLayout(this.fleet.groups, rows);
    this.resize();
    if (this.selected >= 0) this.show(this.selected);
    else if (first < this.fleet.count) this.scroller.scrollTop = this.layout.topOf(first);
    this.drawSoon();
  }

  private resize(): void {
    this.space.style.height = `${Math.max(1, this.layout.height)}px`;
    this.scroller.style.height = `${Math.min(MAX_HEIGHT, Math.max(1, this.layout.height))}px`;
    for (const [rows, button] of this.buttons)
      button.setAttribute("aria-pressed", String(rows === this.rows));
  }

  private measures(): { width: number; gutter: number; plot: number; scrolled: number } {
    const width = this.scroller.clientWidth;
    const gutter = gutterOf(width, this.layout);
    return { width, gutter, plot: width - gutter - MARKS, scrolled: this.scroller.scrollTop };
  }

  private draw(): void {
    const { width, gutter, plot, scrolled } = this.measures();
    if (plot < 20) return;
    const theme = document.documentElement.dataset.theme === "dark" ? "dark" : "light";
    const heat = heatColors(theme);
    const height = this.scroller.clientHeight;
    const drawn = paintHeat(prepare(this.canvas, width, height), {
      ...{ fleet: this.fleet, layout: this.layout, order: this.order, scrolled, width, height, heat },
      colors: colorsNow(),
    });
    this.scale.style.background = gradient(theme);
    this.unknown.style.setProperty("--tile", cssColor(heat.unknown));
    this.host.style.setProperty("--gutter", `${gutter}px`);
    this.host.style.setProperty("--marks", `${this.host.clientWidth - width + MARKS}px`);
    this.host.dataset.cells = String(drawn);
    this.place(
      this.selection,
      this.selected < 0 ? null : this.order.indexOf(this.selected),
      0,
      this.fleet.parts,
    );
    // A box around a thin row would cover it.
    const isThin = this.layout.row < BOXED;
    this.selection.classList.toggle("heat-pointer", isThin);
    if (isThin) {
      this.selection.style.left = `${gutter - POINTER - 1}px`;
      this.selection.style.width = `${POINTER}px`;
    }
    if (this.spot) this.showSpotSoon();
  }

  /** Moves a box to some parts of a row; hides it if the row is out of view. */
  private place(box: HTMLElement, row: number | null, part: number, parts: number): void {
    const { gutter, plot, scrolled } = this.measures();
    const top = row === null ? -1 : this.layout.topOf(row) - scrolled;
    const high = Math.max(4, this.layout.row);
    box.hidden = row === null || top < -high || top > this.scroller.clientHeight;
    box.style.left = `${gutter + (part / this.fleet.parts) * plot - 1}px`;
    box.style.width = `${(parts / this.fleet.parts) * plot + 2}px`;
    box.style.top = `${Math.round(top) - 1}px`;
    box.style.height = `${high + 1}px`;
  }

  // Mouse and keyboard.

  private listen(): void {
    this.canvas.addEventListener("pointermove", (event) => {
      this.spot = this.spotOf(event);
      this.showSpotSoon();
    });
    this.canvas.addEventListener("pointerleave", () => {
      this.spot = null;
      this.showSpotSoon();
    });
    this.canvas.addEventListener("click", (event) => this.select(this.spotOf(event)));
    this.host.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target !== this.host) return;
      if (this.pressed(event.key)) event.preventDefault();
    });
    this.host.addEventListener("blur", () => {
      this.spot = null;
      this.showSpotSoon();
    });
  }

  private spotOf(event: MouseEvent): Spot | null {
    const box = this.scroller.getBoundingClientRect();
    const { gutter, plot, scrolled } = this.measures();
    const [left, top] = [event.clientX - box.left - gutter, event.clientY - box.top + scrolled];
    const { first, end } =
      this.layout.row >= 1
        ? this.layout.rowsIn(top, top + 1e-3)
        : this.layout.rowsIn(Math.floor(top), Math.floor(top) + 1);
    if (first >= end) return null;
    // Over the names, the first part.
    const part = Math.floor((left / plot) * this.fleet.parts);
    return { row: first, rows: end - first, part: Math.min(this.fleet.parts - 1, Math.max(0, part)) };
  }

  private select(spot: Spot | null): void {
    if (!spot) return;
    const rank = this.rankAt(spot);
    this.show(rank);
    this.onSelect(rank);
  }

  private pressed(key: string): boolean {
    const { count: ranks, parts } = this.fleet;
    if (ranks === 0) return false;
    const { row, part } = this.spot ?? { row: Math.max(0, this.order.indexOf(this.selected)), part: 0 };
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / this.layout.row) - 1);
    const to = (row: number, part: number) => {
      const place = Math.min(ranks - 1, Math.max(0, row));
      this.spot = { row: place, rows: 1, part: Math.min(parts - 1, Math.max(0, part)) };
      this.reveal(place);
      this.showSpot();
      this.said.textContent = this.tooltip.textContent;
    };
    const act: Record<string, () => void> = {
      ArrowUp: () => to(row - 1, part),
      ArrowDown: () => to(row + 1, part),
      ArrowLeft: () => to(row, part - 1),
      ArrowRight: () => to(row, part + 1),
      PageUp: () => to(row - page, part),
      PageDown: () => to(row + page, part),
      Home: () => to(0, part),
      End: () => to(ranks - 1, part),
      Enter: () => this.select(this.spot ?? { row, rows: 1, part }),
      Escape: () => {
        this.spot = null;
        this.showSpot();
      },
    };
    if (!Object.hasOwn(act, key)) return false;
    act[key]();
    return true;
  }

  private reveal(row: number): void {
    const top = this.layout.topOf(row);
    const { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop) this.scroller.scrollTop = top;
    else if (top + this.layout.row > scrollTop + clientHeight)
      this.scroller.scrollTop = top + this.layout.row - clientHeight;
  }

  // The tooltip.

  /** The rank of a spot: of several, the one with the highest share. */
  private rankAt({ row, rows, part }: Spot): number {
    const { rank } = highest(this.fleet, this.order.subarray(row, row + rows), part);
    return rank < 0 ? this.order[row] : rank;
  }

  private showSpot(): void {
    const { spot } = this;
    this.tooltip.hidden = spot === null;
    this.canvas.style.cursor = spot ? "pointer" : "";
    if (!spot) {
      this.cursor.hidden = true;
      return;
    }
    this.place(this.cursor, spot.row, spot.part, 1);
    fill(this.tooltip, this.describe(spot));
    const { gutter, plot, scrolled } = this.measures();
    const left = gutter + ((spot.part + 1) / this.fleet.parts) * plot + 10;
    const top = this.layout.topOf(spot.row) - scrolled + 14;
    const { offsetWidth: wide, offsetHeight: high } = this.tooltip;
    const room = { width: this.host.clientWidth - wide - 4, height: this.host.clientHeight - high - 4 };
    // Right of the cell, or left of it if there is not enough room.
    const x = left > room.width ? left - wide - 20 - plot / this.fleet.parts : left;
    this.tooltip.style.transform = `translate(${Math.max(0, Math.min(x, room.width))}px, ${Math.max(0, Math.min(top, room.height))}px)`;
  }

  private describe(spot: Spot): Node[] {
    const { fleet } = this;
    const rank = this.rankAt(spot);
    const { run, pool, extent, capacity_per_bank, peak_bytes, capacity_bytes, verdict } = fleet.ranks;
    const bytes = fleet.cells[rank * fleet.parts + spot.part];
    const percentAt = (part: number) => Math.round((part / fleet.parts) * 100);
    const facts: [name: string, value: string][] = [
      ["run", shorten(run[rank], 60)],
      [
        `steps ${percentAt(spot.part)}–${percentAt(spot.part + 1)}%`,
        Number.isNaN(bytes) ? "unknown" : of(bytes, capacity_per_bank[rank]),
      ],
      ["peak", peak_bytes[rank] === null ? "unknown" : of(peak_bytes[rank], capacity_bytes[rank])],
    ];
    const words = extent[rank] === null ? "" : bankWords(extent[rank]).perBank;
    const title = `${shorten(fleet.nameOf(rank), 60)}${pool[rank] === null ? "" : `, ${pool[rank]}${words}`}`;
    const nodes: Node[] = [
      h("strong", {}, spot.rows > 1 ? `${title} (highest of ${count(spot.rows)} ranks here)` : title),
      h(
        "div",
        { class: "facts heat-facts" },
        facts.flatMap(([name, value]) => [h("span", { class: "name" }, name), h("span", {}, value)]),
      ),
    ];
    if (verdict[rank] !== null)
      nodes.push(h("div", { class: "heat-verdict" }, shorten(verdict[rank], MAX_TEXT)));
    return nodes;
  }
}

/** `34.2 of 80.0 GiB (43%)` */
export function of(part: number, whole: number | null): string {
  return whole ? `${partOf(part, whole)} (${percent(part, whole)})` : size(part);
}
