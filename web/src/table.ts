// A table of up to a million rows, with sorting, keyboard navigation and CSV export.
//
// The owner identifies a row by a number, such as a step or a tensor; the row's position depends on the sort order.

import "./table.css";
import { toCsv } from "./csv";
import { fill, h } from "./dom";
import { hasValue, type SortKey, sorted } from "./order";
import { textWidth } from "./text-width";
import { VirtualRows } from "./virtual";

const ROW_HEIGHT = 26;
/** Cells truncate longer text; the tooltip has all of it. */
const MAX_TEXT = 300;
/** The horizontal padding of a cell, and a pixel for rounding. */
const CELL_PADDING = 17;
/** The width that the share of a column is proportional to, at most: a single long text must not take all the room. */
const MAX_SHARE = 480;
/** The space before the members of a group; see table.css. */
const INDENT = 30;
/** The width of the arrow of a sorted column. */
const ARROW = 16;

export interface Column {
  /** The column's name in `sortBy` and in CSV files. */
  key: string;
  title: string;
  /** The tooltip of the heading. */
  help?: string;
  number?: boolean;
  /** A grid track that does not depend on the cells' content: `90px`, `minmax(120px, 2fr)`. */
  width?: string;
  /** Sizes the column by its longest text, instead of `width`. */
  fit?: Fit;
  cell(row: number): Node | string;
  /** The sort key; a column without one can't be sorted. NaN, null and the empty string sort last. */
  sort?(row: number): SortKey;
  /** The value in CSV files; the sort key by default. A column with neither is not saved. */
  csv?(row: number): string | number | null;
  /** Whether a row has a value in this column; whether its sort key is known by default. */
  has?(row: number): boolean;
  /** In a table that is too narrow for all columns, those without this number are shown, then the lowest numbers. */
  narrow?: number;
}

/** A width that depends on the longest text of a column. */
export interface Fit {
  longest: string;
  /** A text that should not be cut even in a narrow table; the longest by default. */
  typical?: string;
  /** The minimum width in pixels; less if the typical text is shorter. */
  min: number;
  /**
   * The maximum width in pixels. The column gets up to this width before the columns that share the rest, so that its text
   * is not cut next to empty space. Without a maximum, the column shares the rest in proportion to its text.
   */
  max?: number;
}

export interface TableOptions {
  /** The description for screen readers. */
  caption: string;
  columns: Column[];
  /** The maximum height, as a CSS value. */
  height?: string;
  /** The message for an empty table. */
  empty?: string;
  /**
   * Hides columns until a row with a value is shown; then they stay, so that columns don't come and go. These are all rows
   * that may be shown: columns without a value in any of them are never looked at again. CSV files have all columns.
   */
  decidedBy?: Uint32Array;
  /**
   * The rows that a row stands for, which are shown below it while it is expanded; `null` for others. Such a row expands
   * when it is activated.
   */
  membersOf?(row: number): Uint32Array | null;
  onActivate?(row: number): void;
  rowClass?(row: number): string;
}

let tables = 0;

export class Table {
  readonly element: HTMLElement;
  private readonly id = `table-${++tables}`;
  private readonly grid: HTMLElement;
  private readonly body: VirtualRows;
  private readonly head: HTMLElement;
  private readonly headings: Map<Column, HTMLElement>;
  private readonly none: HTMLElement;
  private readonly hidden: HTMLElement;
  /** The columns that may have values. */
  private readonly possible: Column[];
  /** Those without a value in the rows shown so far. */
  private empty: Column[];
  /** Their grid tracks, once they have been measured. */
  private tracks: Map<Column, Track> | undefined;
  /** The columns that are shown. */
  private columns: Column[] = [];
  private natural: Uint32Array = new Uint32Array();
  /** All rows without groups, in their natural order. */
  private leaves: Uint32Array = new Uint32Array();
  private order: Uint32Array = new Uint32Array();
  /** Whether the row at a position is a member of the group above it. */
  private isMember: Uint8Array = new Uint8Array();
  private readonly expanded = new Set<number>();
  private sorting: { column: Column; descending: boolean } | null = null;
  private selected: number | null = null;

  constructor(private readonly options: TableOptions) {
    this.headings = new Map(options.columns.map((column) => [column, this.heading(column)]));
    this.head = h("div", { class: "table-row", role: "row", "aria-rowindex": 1 });
    const head = h("div", { class: "table-head", role: "rowgroup" }, this.head);
    this.body = new VirtualRows({ rowHeight: ROW_HEIGHT, head, make: (at) => this.makeRow(at) });
    this.grid = this.body.element;
    const role = options.membersOf ? "treegrid" : "grid";
    const attributes = { role, tabindex: 0, "aria-label": options.caption, "aria-readonly": true };
    for (const [name, value] of Object.entries(attributes)) this.grid.setAttribute(name, String(value));
    this.grid.style.setProperty("--max-height", options.height ?? "min(60vh, 560px)");
    const { columns, decidedBy } = options;
    this.possible = decidedBy && decidedBy.length > 0 ? withValues(columns, decidedBy) : columns;
    this.empty = decidedBy ? this.possible : [];
    this.grid.addEventListener("keydown", (event) => this.pressed(event));
    this.grid.addEventListener("click", (event) => this.clicked(event));
    this.none = h("p", { class: "note table-none", hidden: true }, options.empty ?? "No rows.");
    this.hidden = h("p", { class: "note table-hidden", hidden: true });
    const isActive = options.onActivate ?? options.membersOf;
    this.element = h(
      "div",
      {},
      h("div", { class: isActive ? "table active" : "table" }, this.grid, this.none),
    );
    this.element.append(this.hidden);
    this.fitColumns();
    new ResizeObserver(() => {
      if (this.fitColumns()) this.refresh();
    }).observe(this.grid);
  }

  /** Shows rows, given in their natural order. If some of them are groups, `leaves` are all rows without groups. */
  show(rows: Uint32Array, leaves = rows): void {
    this.natural = rows;
    this.leaves = leaves;
    if (this.empty.length > 0 && leaves.length > 0) {
      const found = withValues(this.empty, leaves);
      this.empty = this.empty.filter((column) => !found.includes(column));
    }
    this.arrange();
  }

  /** The columns with values. A table that was always empty has all headings. */
  private get filled(): Column[] {
    if (this.empty.length === this.possible.length) return this.possible;
    return this.possible.filter((column) => !this.empty.includes(column));
  }

  /** The space before the texts of the first column. */
  private get indent(): number {
    return this.options.membersOf ? INDENT : 0;
  }

  /** Chooses the columns that fit; returns whether they changed. A sorted column stays, since its heading shows that. */
  private fitColumns(): boolean {
    this.tracks ??= new Map(
      this.possible.map((column, at) => [column, trackOf(column, at === 0 ? this.indent : 0)]),
    );
    const { tracks, filled } = this;
    const width = this.grid.clientWidth || Number.POSITIVE_INFINITY;
    const isOptional = (column: Column) => column.narrow !== undefined && column !== this.sorting?.column;
    const shown = new Set(filled.filter((column) => !isOptional(column)));
    let used = 0;
    for (const column of shown) used += tracks.get(column)!.min;
    const optional = filled.filter(isOptional).sort((a, b) => (a.narrow ?? 0) - (b.narrow ?? 0));
    for (const column of optional) {
      const { min } = tracks.get(column)!;
      if (used + min > width) continue;
      used += min;
      shown.add(column);
    }
    const columns = filled.filter((column) => shown.has(column));
    if (columns.length === this.columns.length && columns.every((column) => this.columns.includes(column)))
      return false;
    this.columns = columns;
    fill(
      this.head,
      columns.map((column) => this.headings.get(column)),
    );
    this.grid.setAttribute("aria-colcount", String(columns.length));
    this.grid.style.setProperty("--tracks", columns.map((column) => tracks.get(column)!.css).join(" "));
    const titles = filled.filter((column) => !shown.has(column)).map(({ title }) => title);
    this.hidden.hidden = titles.length === 0;
    fill(
      this.hidden,
      `Not enough room for ${titles.length === 1 ? "column" : "columns"} ${titles.join(", ")}.`,
    );
    return true;
  }

  /** The number of rows shown. */
  get count(): number {
    return this.order.length;
  }

  /** The selected row, even if it is filtered out. */
  get selection(): number | null {
    return this.selected;
  }

  /** Selects a row without scrolling to it. */
  select(row: number | null): void {
    if (row === this.selected) return;
    const before = this.selected;
    this.selected = row;
    for (const changed of [before, row]) if (changed !== null) this.mark(changed);
    this.pointAtSelected();
  }

  /** Whether a row is shown. */
  has(row: number): boolean {
    return this.order.includes(row);
  }

  /** Scrolls to a row within the table; the page does not scroll. */
  scrollTo(row: number): void {
    const position = this.order.indexOf(row);
    if (position >= 0) this.body.scrollTo(position);
  }

  scrollToTop(): void {
    this.body.scrollToTop();
  }

  /** The current sort order; `null` for the natural order. */
  get sortedBy(): { key: string; descending: boolean } | null {
    return this.sorting && { key: this.sorting.column.key, descending: this.sorting.descending };
  }

  /** Sorts by the column with a key; restores the natural order if there is none, or if it has no values. */
  sortBy(key: string, descending: boolean): void {
    const column = this.filled.find((column) => column.key === key && column.sort);
    this.sorting = column ? { column, descending } : null;
    this.arrange();
  }

  /** Shows the members of a row. */
  expand(row: number): void {
    if (this.expanded.has(row)) return;
    this.expanded.add(row);
    this.arrange();
  }

  /** All rows in their current order, without groups. */
  csv(): string {
    const columns = this.options.columns.filter((column) => column.csv ?? column.sort);
    const rows = Array.from(this.sort(this.leaves), (row) =>
      columns.map((column) => (column.csv ? column.csv(row) : (column.sort?.(row) ?? null))),
    );
    return toCsv(
      columns.map((column) => column.key),
      rows,
    );
  }

  /** Recreates the visible rows after their content changed. */
  refresh(): void {
    this.body.reset(this.order.length);
    this.pointAtSelected();
  }

  private sort(rows: Uint32Array): Uint32Array {
    const { sorting } = this;
    const keyOf = sorting?.column.sort?.bind(sorting.column);
    return sorting && keyOf ? sorted(rows, keyOf, sorting.descending) : rows;
  }

  /** Inserts the members of expanded rows below them. */
  private unfold(rows: Uint32Array): void {
    const { membersOf } = this.options;
    this.order = rows;
    this.isMember = new Uint8Array(rows.length);
    const isExpanded = (row: number) => this.expanded.has(row) && membersOf?.(row);
    if (!membersOf || this.expanded.size === 0 || !rows.some(isExpanded)) return;
    const order: number[] = [];
    const members: number[] = [];
    for (const row of rows) {
      order.push(row);
      members.push(0);
      if (!this.expanded.has(row)) continue;
      for (const member of this.sort(membersOf(row) ?? new Uint32Array())) {
        order.push(member);
        members.push(1);
      }
    }
    this.order = Uint32Array.from(order);
    this.isMember = Uint8Array.from(members);
  }

  private arrange(): void {
    const { sorting } = this;
    this.unfold(this.sort(this.natural));
    for (const [column, heading] of this.headings) {
      if (!column.sort) continue;
      const direction = sorting?.descending ? "descending" : "ascending";
      heading.setAttribute("aria-sort", sorting?.column === column ? direction : "none");
    }
    this.fitColumns();
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

  /** Cycles through both directions and the natural order. Numbers start with the largest. */
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
    const cells = this.columns.map((column) => makeCell(column, row));
    const classes = ["table-row", this.options.rowClass?.(row) ?? ""].join(" ").trim();
    const attributes = {
      id: this.rowId(row),
      class: classes,
      role: "row",
      "aria-rowindex": position + 2,
      "data-row": row,
      "data-position": position,
      ...this.treeAttributes(row, position),
    };
    const element = h("div", attributes, cells);
    this.dress(element, row);
    return element;
  }

  private treeAttributes(row: number, position: number): Record<string, unknown> {
    const { membersOf } = this.options;
    if (!membersOf) return {};
    return {
      "aria-level": this.isMember[position] + 1,
      "aria-expanded": membersOf(row) && String(this.expanded.has(row)),
    };
  }

  private rowId(row: number): string {
    return `${this.id}-${row}`;
  }

  private mark(row: number): void {
    const element = document.getElementById(this.rowId(row));
    if (element) this.dress(element, row);
  }

  /** Only controls in the selected row are tab stops; otherwise there would be hundreds. */
  private dress(element: HTMLElement, row: number): void {
    const isSelected = row === this.selected;
    element.setAttribute("aria-selected", String(isSelected));
    for (const control of element.querySelectorAll("button, a, input")) {
      control.setAttribute("tabindex", isSelected ? "0" : "-1");
    }
  }

  /** Points the grid at the selected row, which screen readers then read. */
  private pointAtSelected(): void {
    if (this.selected === null) this.grid.removeAttribute("aria-activedescendant");
    else this.grid.setAttribute("aria-activedescendant", this.rowId(this.selected));
  }

  private clicked(event: MouseEvent): void {
    const target = event.target as Element;
    const element = target.closest<HTMLElement>("[data-row]");
    if (!element || target.closest("button, a, input")) return;
    // The user is selecting text to copy it.
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
    const position = this.turned(event.key) ?? this.moved(event.key);
    if (position === null) return;
    event.preventDefault();
    this.body.scrollTo(position, "nearest");
    this.select(this.order[position]);
    if (inRow) this.grid.focus({ preventScroll: true });
  }

  /**
   * Expands or collapses the selected row; returns its new position, or that of its group. `null` if the key or the row
   * does not allow that.
   */
  private turned(key: string): number | null {
    const row = this.selected;
    const position = row === null ? -1 : this.order.indexOf(row);
    if (row === null || position < 0 || !["ArrowLeft", "ArrowRight"].includes(key)) return null;
    const isOpening = key === "ArrowRight";
    if (!isOpening && this.isMember[position]) return this.isMember.lastIndexOf(0, position);
    if (!this.options.membersOf?.(row) || this.expanded.has(row) === isOpening) return null;
    this.toggle(row);
    return this.order.indexOf(row);
  }

  private toggle(row: number): void {
    if (!this.expanded.delete(row)) this.expanded.add(row);
    this.arrange();
  }

  /** The position that a key moves the selection to; `null` for other keys. */
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
    const row = this.selected;
    if (row === null || !this.has(row)) return;
    if (this.options.membersOf?.(row)) this.toggle(row);
    this.options.onActivate?.(row);
  }
}

/** The columns with a value in at least one of the rows. */
export function withValues<Of extends Pick<Column, "sort" | "has">>(columns: Of[], rows: Uint32Array): Of[] {
  return columns.filter((column) => {
    const has = column.has ?? ((row: number) => !column.sort || hasValue(column.sort(row)));
    return rows.some((row) => has(row));
  });
}

/** A grid track, and its minimum width in pixels. */
interface Track {
  css: string;
  min: number;
}

function trackOf(column: Column, indent: number): Track {
  const { fit, title } = column;
  const heading = textWidth(title, "600") + ARROW;
  const naturalOf = (text: string) =>
    indent + CELL_PADDING + Math.max(textWidth(text.slice(0, MAX_TEXT)), heading);
  if (fit) {
    const natural = naturalOf(fit.longest);
    const max =
      fit.max === undefined ? `${Math.min(natural, MAX_SHARE)}fr` : `${Math.min(natural, fit.max)}px`;
    const min = Math.min(naturalOf(fit.typical ?? fit.longest), fit.min);
    return { css: `minmax(${min}px, ${max})`, min };
  }
  const css = column.width ?? (column.number ? "minmax(90px, 1fr)" : "minmax(120px, 2fr)");
  return { css, min: Number.parseFloat(css.match(/[\d.]+px/)?.[0] ?? "0") };
}

function makeCell(column: Column, row: number): HTMLElement {
  const content = column.cell(row);
  const classes = column.number ? "table-cell number" : "table-cell";
  if (typeof content !== "string") return h("div", { class: classes, role: "gridcell" }, content);
  const shown = content.length > MAX_TEXT ? `${content.slice(0, MAX_TEXT)}…` : content;
  return h("div", { class: classes, role: "gridcell", title: content || null }, shown);
}
