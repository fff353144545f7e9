// Rows of one height, of which only those in view are elements: lists of a million rows scroll as short ones do.

import "./virtual.css";
import { h } from "./dom";

/** Browsers cut off elements above 17 million pixels; well below that, the scroll bar stands for more than it shows. */
export const TALLEST = 10_000_000;

/** What a place of the scroll bar means in rows. */
export class ScrollScale {
  /** How tall the element is that is scrolled over. */
  readonly height: number;
  /** The offset, in pixels of rows, at which the last row ends with the view. */
  readonly furthest: number;
  private readonly perPixel: number;

  constructor(rows: number, rowHeight: number, view: number, tallest = TALLEST) {
    const whole = rows * rowHeight;
    this.height = Math.min(whole, tallest);
    this.furthest = Math.max(0, whole - view);
    const room = this.height - view;
    this.perPixel = room > 0 ? this.furthest / room : 1;
  }

  /** The offset in pixels of rows that a place of the scroll bar stands for. */
  offsetAt(scrollTop: number): number {
    return this.clamp(scrollTop * this.perPixel);
  }

  scrollTopFor(offset: number): number {
    return this.clamp(offset) / this.perPixel;
  }

  clamp(offset: number): number {
    return Math.max(0, Math.min(offset, this.furthest));
  }
}

/** Where to scroll for a row to be seen; `offset` itself where it is seen already. */
export function offsetToShow(
  row: number,
  rowHeight: number,
  offset: number,
  view: number,
  place: "nearest" | "center",
): number {
  const top = row * rowHeight;
  const bottom = top + rowHeight;
  if (top >= offset && bottom <= offset + view) return offset;
  if (place === "center") return top - (view - rowHeight) / 2;
  return top < offset ? top : bottom - view;
}

interface VirtualOptions {
  rowHeight: number;
  /** A row that stays in view above all others. */
  head?: HTMLElement;
  /** Makes the element of the row at a position. */
  make(position: number): HTMLElement;
}

/**
 * Draws the rows in view into a scrolling element. The rows stand in a window that sticks to the view while an empty
 * space of the full height is scrolled behind it, so that no row is ever placed at a coordinate of many millions.
 */
export class VirtualRows {
  /** The element that scrolls. */
  readonly element: HTMLElement;
  private readonly canvas: HTMLElement;
  private readonly space: HTMLElement;
  private readonly window: HTMLElement;
  private readonly rows: HTMLElement;
  private readonly made = new Map<number, HTMLElement>();
  private count = 0;
  private view = 0;
  private offset = 0;
  private scale: ScrollScale;
  /** Where the scroll bar was put by us: no news when the browser tells. */
  private placed = -1;

  constructor(private readonly options: VirtualOptions) {
    this.rows = h("div", { class: "virtual-rows", role: "rowgroup" });
    this.window = h("div", { class: "virtual-window", role: "presentation" }, this.rows);
    this.space = h("div", { class: "virtual-space", role: "presentation" }, this.window);
    this.canvas = h("div", { class: "virtual-canvas", role: "presentation" }, options.head, this.space);
    this.element = h("div", { class: "virtual" }, this.canvas);
    this.scale = new ScrollScale(0, options.rowHeight, 0);
    this.element.addEventListener("scroll", () => this.scrolled(), { passive: true });
    new ResizeObserver(() => {
      if (this.measure()) this.draw();
    }).observe(this.element);
  }

  /** Shows so many rows, all made anew. */
  reset(count: number): void {
    this.count = count;
    const focusWithin = this.rows.contains(document.activeElement);
    this.made.clear();
    this.rows.replaceChildren();
    this.measure();
    this.draw();
    if (focusWithin) this.element.focus({ preventScroll: true });
  }

  /** The element of a row, if it is in view. */
  elementAt(position: number): HTMLElement | undefined {
    return this.made.get(position);
  }

  /** Brings a row into view, without moving the page. */
  scrollTo(position: number, place: "nearest" | "center" = "center"): void {
    const wanted = offsetToShow(position, this.options.rowHeight, this.offset, this.view, place);
    if (wanted !== this.offset) this.moveTo(wanted);
  }

  /** Puts the row at the top of the view. */
  scrollToTop(position = 0): void {
    this.moveTo(position * this.options.rowHeight);
  }

  /** How many whole rows the view has room for. */
  get page(): number {
    return Math.max(1, Math.floor(this.view / this.options.rowHeight));
  }

  /** The position of the first row in view. */
  get first(): number {
    return Math.floor(this.offset / this.options.rowHeight);
  }

  /** Where the rows become wider while they are scrolled, they do not become narrower again. */
  widen(css: string): void {
    this.canvas.style.minWidth = css;
  }

  private moveTo(offset: number): void {
    this.offset = this.scale.clamp(offset);
    this.place();
    this.draw();
  }

  private place(): void {
    this.element.scrollTop = this.scale.scrollTopFor(this.offset);
    this.placed = this.element.scrollTop;
  }

  private scrolled(): void {
    if (this.element.scrollTop === this.placed) return;
    this.placed = -1;
    this.offset = this.scale.offsetAt(this.element.scrollTop);
    this.draw();
  }

  /** Looks how much room there is; says whether that changed. */
  private measure(): boolean {
    const { rowHeight, head } = this.options;
    const headHeight = head?.offsetHeight ?? 0;
    this.space.style.height = `${Math.min(this.count * rowHeight, TALLEST)}px`;
    const view = Math.max(0, this.element.clientHeight - headHeight);
    const changed = view !== this.view;
    this.view = view;
    this.scale = new ScrollScale(this.count, rowHeight, view);
    this.window.style.top = `${headHeight}px`;
    this.window.style.height = `${Math.min(view, this.scale.height)}px`;
    this.offset = this.scale.clamp(this.offset);
    if (view > 0) this.place();
    return changed;
  }

  private draw(): void {
    const { rowHeight, make } = this.options;
    const first = this.first;
    const end =
      this.view > 0 ? Math.min(this.count, Math.ceil((this.offset + this.view) / rowHeight)) : first;
    this.rows.style.transform = `translateY(${first * rowHeight - this.offset}px)`;
    let hadFocus = false;
    for (const [position, element] of this.made) {
      if (position >= first && position < end) continue;
      hadFocus ||= element.contains(document.activeElement);
      element.remove();
      this.made.delete(position);
    }
    let next: Element | null = null;
    for (let position = end - 1; position >= first; position--) {
      let element = this.made.get(position);
      if (!element) {
        element = make(position);
        this.made.set(position, element);
        this.rows.insertBefore(element, next);
      }
      next = element;
    }
    // A row that is scrolled away must not take the keyboard with it.
    if (hadFocus) this.element.focus({ preventScroll: true });
  }
}
