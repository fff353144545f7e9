// A table of up to a million rows: sorted by its headings, walked with the arrow keys, saved as CSV.
//
// A row is known by a number that the owner gives it, such as a step or a tensor; its position is where it stands now.

import "./table.css";
import { toCsv } from "./csv";
import { h } from "./dom";
import { type SortKey, sorted } from "./order";
import { VirtualRows } from "./virtual";

const ROW_HEIGHT = 26;
/** No cell shows more of a text; the whole text is in its tooltip. */
const LONGEST_TEXT = 300;

export interface Column {
  /** Names the column to programs: in `sortBy`, and as the heading in a CSV file. */
  key: string;
  title: string;
  /** What the heading means, for the tooltip. */
  help?: string;
  number?: boolean;
  /** A grid track that does not depend on what the cells hold: `90px`, `minmax(120px, 2fr)`. */
  width?: string;
  cell(row: number): Node | string;
  /** What the column is sorted by; without it, it cannot be. NaN, null and the empty text come last. */
  sort?(row: number): SortKey;
  /** What is saved. Without it, what is sorted by; a column with neither is not saved. */
  csv?(row: number): string | number | null;
}

export interface TableOptions {
  /** What the table shows, for readers who do not see it. */
  caption: string;
  columns: Column[];
  /** The most height it takes, in CSS. */
  height?: string;
  /** What is said where there are no rows. */
  empty?: string;
  onActivate?(row: number): void;
  rowClass?(row: number): string;
}

let tables = 0;

export class Table {
  readonly element: HTMLElement;
  private readonly id = `table-${++tables}`;
  private readonly grid: HTMLElement;
  private readonly body: VirtualRows;
  private readonly headings: HTMLElement[];
  private readonly none: HTMLElement;
  private natural: Uint32Array = new Uint32Array();
  private order: Uint32Array = new Uint32Array();
  private sorting: { column: Column; descending: boolean } | null = null;
  private selected: number | null = null;

  constructor(private readonly options: TableOptions) {
    this.headings = options.columns.map((column) => this.heading(column));
    const head = h("div", { class: "table-head", role: "rowgroup" }, [
      h("div", { class: "table-row", role: "row", "aria-rowindex": 1 }, this.headings),
    ]);
    this.body = new VirtualRows({ rowHeight: ROW_HEIGHT, head, make: (at) => this.makeRow(at) });
    this.grid = this.body.element;
    const attributes = { role: "grid", tabindex: 0, "aria-label": options.caption, "aria-readonly": true };
    for (const [name, value] of Object.entries(attributes)) this.grid.setAttribute(name, String(value));
    this.grid.setAttribute("aria-colcount", String(options.columns.length));
    this.grid.style.setProperty("--most-height", options.height ?? "min(60vh, 560px)");
    this.grid.style.setProperty("--tracks", options.columns.map(trackOf).join(" "));
    this.grid.addEventListener("keydown", (event) => this.pressed(event));
    this.grid.addEventListener("click", (event) => this.clicked(event));
    this.none = h("p", { class: "note table-none", hidden: true }, options.empty ?? "There are none.");
    this.element = h("div", { class: options.onActivate ? "table active" : "table" }, this.grid, this.none);
  }

  /** Shows these rows; they are given in their natural order. */
  show(rows: Uint32Array): void {
    this.natural = rows;
    this.arrange();
  }

  /** How many rows are shown. */
  get count(): number {
    return this.order.length;
  }

  /** The row that is selected, shown or not. */
  get selection(): number | null {
    return this.selected;
  }

  /** Marks a row, without bringing it into view. */
  select(row: number | null): void {
    if (row === this.selected) return;
    const before = this.selected;
    this.selected = row;
    for (const changed of [before, row]) if (changed !== null) this.mark(changed);
    this.pointAtSelected();
  }

  /** Whether a row is among those shown. */
  has(row: number): boolean {
    return this.order.includes(row);
  }

  /** Brings a row into view within the table; the page does not move. */
  scrollTo(row: number): void {
    const position = this.order.indexOf(row);
    if (position >= 0) this.body.scrollTo(position);
  }

  scrollToTop(): void {
    this.body.scrollToTop();
  }

  /** Sorts by the column of that key; the natural order for a key that no column has. */
  sortBy(key: string, descending: boolean): void {
    const column = this.options.columns.find((column) => column.key === key && column.sort);
    this.sorting = column ? { column, descending } : null;
    this.arrange();
  }

  /** The rows as they are shown, all of them. */
  csv(): string {
    const columns = this.options.columns.filter((column) => column.csv ?? column.sort);
    const rows = Array.from(this.order, (row) =>
      columns.map((column) => (column.csv ? column.csv(row) : (column.sort?.(row) ?? null))),
    );
    return toCsv(
      columns.map((column) => column.key),
      rows,
    );
  }

  /** Makes the rows in view anew, for when what they show changed. */
  refresh(): void {
    this.body.reset(this.order.length);
    this.pointAtSelected();
  }

  private arrange(): void {
    const { sorting } = this;
    const keyOf = sorting?.column.sort?.bind(sorting.column);
    this.order = sorting && keyOf ? sorted(this.natural, keyOf, sorting.descending) : this.natural;
    for (const [index, column] of this.options.columns.entries()) {
      if (!column.sort) continue;
      const direction = sorting?.descending ? "descending" : "ascending";
      this.headings[index].setAttribute("aria-sort", sorting?.column === column ? direction : "none");
    }
    this.grid.setAttribute("aria-rowcount", String(this.order.length + 1));
    this.none.hidden = this.order.length > 0;
    this.refresh();
  }

  private heading(column: Column): HTMLElement {
    const attributes = {
      role: "columnheader",
      class: column.number ? "table-cell number" : "table-cell",
      title: column.help,
    };
    if (!column.sort) return h("div", attributes, column.title);
    const button = h("button", { type: "button", onclick: () => this.turn(column) }, column.title);
    return h("div", { ...attributes, "aria-sort": "none" }, button);
  }

  /** A heading was pressed: one direction, the other, and the natural order again. Large numbers come first. */
  private turn(column: Column): void {
    const first = column.number ?? false;
    if (this.sorting?.column !== column) this.sorting = { column, descending: first };
    else if (this.sorting.descending === first) this.sorting = { column, descending: !first };
    else this.sorting = null;
    this.arrange();
    this.body.scrollToTop();
  }

  private makeRow(position: number): HTMLElement {
    const row = this.order[position];
    const cells = this.options.columns.map((column) => makeCell(column, row));
    const classes = ["table-row", this.options.rowClass?.(row) ?? ""].join(" ").trim();
    const attributes = {
      id: this.rowId(row),
      class: classes,
      role: "row",
      "aria-rowindex": position + 2,
      "data-row": row,
      "data-position": position,
    };
    const element = h("div", attributes, cells);
    this.dress(element, row);
    return element;
  }

  private rowId(row: number): string {
    return `${this.id}-${row}`;
  }

  private mark(row: number): void {
    const element = document.getElementById(this.rowId(row));
    if (element) this.dress(element, row);
  }

  /** Only what is in the selected row is a stop of the tab key: else there would be hundreds. */
  private dress(element: HTMLElement, row: number): void {
    const isSelected = row === this.selected;
    element.setAttribute("aria-selected", String(isSelected));
    for (const control of element.querySelectorAll("button, a, input")) {
      control.setAttribute("tabindex", isSelected ? "0" : "-1");
    }
  }

  /** Screen readers read the row that the grid points at; it can point only at what is there. */
  private pointAtSelected(): void {
    if (this.selected === null) this.grid.removeAttribute("aria-activedescendant");
    else this.grid.setAttribute("aria-activedescendant", this.rowId(this.selected));
  }

  private clicked(event: MouseEvent): void {
    const target = event.target as Element;
    const element = target.closest<HTMLElement>("[data-row]");
    if (!element || target.closest("button, a, input")) return;
    // Whoever marks a text wants to copy it.
    if (getSelection()?.isCollapsed === false) return;
    this.select(Number(element.dataset.row));
    this.activate();
  }

  private pressed(event: KeyboardEvent): void {
    const target = event.target as Element;
    const inRow = target.closest("[data-row]") !== null;
    if (event.ctrlKey || event.metaKey || event.altKey || (target !== this.grid && !inRow)) return;
    if (event.key === "Enter" && !inRow) {
      this.activate();
      event.preventDefault();
      return;
    }
    const position = this.moved(event.key);
    if (position === null) return;
    event.preventDefault();
    this.body.scrollTo(position, "nearest");
    this.select(this.order[position]);
    if (inRow) this.grid.focus({ preventScroll: true });
  }

  /** Where a key moves the selection to; `null` for other keys. */
  private moved(key: string): number | null {
    const last = this.order.length - 1;
    const at = this.selected === null ? -1 : this.order.indexOf(this.selected);
    const from = at < 0 ? this.body.first - 1 : at;
    const targets: Record<string, number> = {
      ArrowDown: from + 1,
      ArrowUp: at < 0 ? this.body.first : at - 1,
      PageDown: from + this.body.page,
      PageUp: from - this.body.page,
      Home: 0,
      End: last,
    };
    if (last < 0 || !Object.hasOwn(targets, key)) return null;
    return Math.max(0, Math.min(targets[key], last));
  }

  private activate(): void {
    if (this.selected !== null && this.has(this.selected)) this.options.onActivate?.(this.selected);
  }
}

function trackOf(column: Column): string {
  return column.width ?? (column.number ? "minmax(90px, 1fr)" : "minmax(120px, 2fr)");
}

function makeCell(column: Column, row: number): HTMLElement {
  const content = column.cell(row);
  const classes = column.number ? "table-cell number" : "table-cell";
  if (typeof content !== "string") return h("div", { class: classes, role: "gridcell" }, content);
  const shown = content.length > LONGEST_TEXT ? `${content.slice(0, LONGEST_TEXT)}…` : content;
  return h("div", { class: classes, role: "gridcell", title: content || null }, shown);
}
