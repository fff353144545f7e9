// A list of rows with equal heights that only creates elements for visible rows, so that a million rows scroll smoothly.

import "./virtual.css";
import { h } from "./dom";

/** Browsers truncate elements above 17 million pixels. Taller lists are scaled down to this height. */
export const MAX_HEIGHT = 10_000_000;

/** Maps scroll bar positions to rows. */
export class ScrollScale {
  /** The height of the scrolled element. */
  readonly height: number;
  /** The offset, in row pixels, where the last row is at the bottom of the view. */
  readonly furthest: number;
  private readonly perPixel: number;

  constructor(rows: number, rowHeight: number, view: number, maxHeight = MAX_HEIGHT) {
    const whole = rows * rowHeight;
    this.height = Math.min(whole, maxHeight);
    this.furthest = Math.max(0, whole - view);
    const room = this.height - view;
    this.perPixel = room > 0 ? this.furthest / room : 1;
  }

  /** The offset in row pixels for a scroll bar position. */
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

/** The offset that makes a row visible; `offset` itself if it is visible already. */
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
  /** A row that stays at the top. */
  head?: HTMLElement;
  /** Creates the element of the row at a position. */
  make(position: number): HTMLElement;
}

/**
 * Draws the visible rows into a scrolling element. The rows are in a window that sticks to the view while an empty
 * element of the full height scrolls, so that no row has a coordinate of many millions.
 */
export class VirtualRows {
  /** The element that scrolls. */
  readonly element: HTMLElement;
  private readonly canvas: HTMLElement;
  private readonly space: HTMLElement;
  private readonly window: HTMLElement;
  private readonly rows: HTMLElement;
  private readonly elements = new Map<number, HTMLElement>();
  private count = 0;
  private view = 0;
  private offset = 0;
  private scale: ScrollScale;
  /** The scroll position that we set: its scroll event is ignored. */
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

  /** Shows `count` rows and recreates all elements. */
  reset(count: number): void {
    this.count = count;
    const focusWithin = this.rows.contains(document.activeElement);
    this.elements.clear();
    this.rows.replaceChildren();
    this.measure();
    this.draw();
    if (focusWithin) this.element.focus({ preventScroll: true });
  }

  /** The element of a row, if it is visible. */
  elementAt(position: number): HTMLElement | undefined {
    return this.elements.get(position);
  }

  /** Scrolls to a row; the page does not scroll. */
  scrollTo(position: number, place: "nearest" | "center" = "center"): void {
    const target = offsetToShow(position, this.options.rowHeight, this.offset, this.view, place);
    if (target !== this.offset) this.moveTo(target);
  }

  /** Scrolls a row to the top of the view. */
  scrollToTop(position = 0): void {
    this.moveTo(position * this.options.rowHeight);
  }

  /** The number of whole rows that fit into the view. */
  get page(): number {
    return Math.max(1, Math.floor(this.view / this.options.rowHeight));
  }

  /** The position of the first visible row. */
  get first(): number {
    return Math.floor(this.offset / this.options.rowHeight);
  }

  /** Sets the minimum width of the rows. */
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

  /** Measures the view; returns whether its height changed. */
  private measure(): boolean {
    const { rowHeight, head } = this.options;
    const headHeight = head?.offsetHeight ?? 0;
    this.space.style.height = `${Math.min(this.count * rowHeight, MAX_HEIGHT)}px`;
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
    for (const [position, element] of this.elements) {
      if (position >= first && position < end) continue;
      hadFocus ||= element.contains(document.activeElement);
      element.remove();
      this.elements.delete(position);
    }
    let next: Element | null = null;
    for (let position = end - 1; position >= first; position--) {
      let element = this.elements.get(position);
      if (!element) {
        element = make(position);
        this.elements.set(position, element);
        this.rows.insertBefore(element, next);
      }
      next = element;
    }
    // A row that is scrolled out of view must not take the keyboard focus with it.
    if (hadFocus) this.element.focus({ preventScroll: true });
  }
}
