// The chart: calls in lanes with memory below on the same time axis, and its mouse and keyboard input.

import "../charts/chart.css";
import "./gantt.css";
import { colorsNow } from "../charts/colors";
import { isPageScroll } from "../charts/page-scroll";
import { fill, h, oncePerFrame } from "../dom";
import { count, size } from "../format";
import { onRedraw } from "../redraw";
import { valueAt } from "./curve";
import type { GanttData } from "./data";
import { describeCall, describeCrowd } from "./describe";
import { gutterOf, Layout, RIGHT, ROW } from "./layout";
import { memoryHeight, paintMemory, paintRows, prepare, ScopeColors } from "./painter";
import { duration, since } from "./time";
import { callAt, type View } from "./visible";
import { around, initialWindow, type Window, within, zoomed } from "./window";

export const HINT =
  "Wheel: zoom at the cursor · drag: pan · click: select a call · double-click: zoom to it · " +
  "keys: ← → pan, ↑ ↓ scroll, + − zoom, 0 show all, / search";

/** Pointer movement, in pixels, that still counts as a click. */
const CLICK_TOLERANCE = 4;
const KEY_ZOOM = 0.7;
/** The maximum height of the rows; the rest is scrolled. */
const MAX_HEIGHT = 480;
/** Pixels between the cursor and the tooltip. */
const GAP = 14;

interface Spot {
  /** Relative to the chart. */
  left: number;
  top: number;
  /** Whether it is over the rows instead of the memory curve. */
  onRows: boolean;
}

export class GanttChart {
  readonly element: HTMLElement;
  private readonly host: HTMLElement;
  private readonly rows: HTMLElement;
  private readonly rowsCanvas = h("canvas", { role: "img" });
  private readonly memoryCanvas = h("canvas", { role: "img", class: "time-area" });
  private readonly cursor = h("div", { class: "time-cursor", hidden: true });
  private readonly tooltip = h("div", { class: "time-tooltip", role: "tooltip", hidden: true });
  private readonly layout: Layout;
  private scopes: ScopeColors;
  private window: Window;
  pool = 0;
  private found: Uint8Array | null = null;
  private chain: Uint8Array | null = null;
  private chosen = -1;
  private spot: Spot | null = null;
  private readonly drawSoon = oncePerFrame(() => this.draw());
  private readonly showSpotSoon = oncePerFrame(() => this.showSpot());
  /** Called when a call is selected (-1 for none). */
  onChoose: (call: number) => void = () => {};
  onWindow: (showsAll: boolean) => void = () => {};
  onSearchKey: () => void = () => {};

  constructor(private readonly data: GanttData) {
    this.layout = new Layout(data);
    this.window = initialWindow(data.length, data.firstCall);
    this.scopes = new ScopeColors(data, themeNow());
    const space = h(
      "div",
      { class: "gantt-space", style: `height: ${this.layout.height}px` },
      this.rowsCanvas,
    );
    this.rows = h("div", { class: "gantt-rows" }, space);
    this.rows.style.height = `${Math.min(MAX_HEIGHT, this.layout.height)}px`;
    this.host = h("div", { class: "chart gantt-chart", tabindex: 0, role: "application" });
    this.host.append(this.rows, this.memoryCanvas, this.cursor, this.tooltip);
    this.element = this.host;
    this.describe();
    this.rows.addEventListener("scroll", () => this.drawSoon());
    this.listenToPointer();
    this.host.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target !== this.host) return;
      if (this.pressed(event.key, event.shiftKey)) event.preventDefault();
    });
    let width = 0;
    new ResizeObserver(() => {
      if (this.host.clientWidth === width) return;
      width = this.host.clientWidth;
      this.draw();
    }).observe(this.host);
    onRedraw(() => this.draw());
  }

  /** The visible range and its width in pixels. */
  get view(): View {
    const { gutter, width } = this.measures();
    return { ...this.window, width: Math.max(1, width - gutter - RIGHT) };
  }

  get showsAll(): boolean {
    return this.window.from <= 0 && this.window.to >= this.data.length;
  }

  focus(): void {
    this.host.focus({ preventScroll: true });
  }

  showAll(): void {
    this.show({ from: 0, to: this.data.length });
  }

  show(window: Window): void {
    this.window = window;
    this.onWindow(this.showsAll);
    this.drawSoon();
  }

  /** Highlights the scopes that a search found. */
  highlight(found: Uint8Array | null): void {
    this.found = found;
    this.drawSoon();
  }

  /** Sets whether the longest chain is highlighted. */
  markChain(isShown: boolean): void {
    this.chain = null;
    if (isShown) {
      this.chain = new Uint8Array(this.data.count);
      for (const call of this.data.chain) this.chain[call] = 1;
    }
    this.drawSoon();
  }

  showPool(pool: number): void {
    this.pool = pool;
    this.describe();
    this.drawSoon();
  }

  /** Selects a call without moving the view. */
  choose(call: number): void {
    this.chosen = call;
    this.onChoose(call);
    this.drawSoon();
  }

  /** Moves the view to a call, large enough to be visible, and selects it. */
  goTo(call: number, closely = false): void {
    const { began, until } = this.data;
    const end = Number.isNaN(until[call]) ? began[call] : until[call];
    const { from, to } = this.window;
    const pixels = ((end - began[call]) / (to - from)) * this.view.width;
    // Don't move if the call is in view and wide enough.
    if (closely || pixels < 4 || end < from || began[call] > to) {
      this.show(around(this.data.length, began[call], end));
    }
    this.scrollTo(call);
    this.choose(call);
  }

  /** Moves the view to a time range and selects a call in it. */
  goToRange(from: number, until: number, call: number): void {
    this.show(around(this.data.length, from, until));
    this.scrollTo(call);
    this.choose(call);
  }

  private scrollTo(call: number): void {
    const top = this.layout.topOf(this.data.row[call]);
    const { scrollTop, clientHeight } = this.rows;
    if (top < scrollTop + ROW || top > scrollTop + clientHeight - 2 * ROW) {
      this.rows.scrollTop = top - clientHeight / 3;
    }
  }

  private describe(): void {
    const { data } = this;
    const pool = data.curves[this.pool];
    const rows = `${count(data.count)} calls in ${data.lanes.length} lanes over ${duration(data.length)}`;
    const highest = pool ? pool.value.reduce((max, value) => Math.max(max, value), 0) : 0;
    const memory = pool ? `${pool.name} over time, at most ${size(highest)}` : "time axis";
    this.host.setAttribute("aria-label", `${rows}; below: ${memory}`);
    this.rowsCanvas.setAttribute("aria-label", rows);
    this.memoryCanvas.setAttribute("aria-label", memory);
  }

  private measures(): { width: number; gutter: number } {
    const width = this.rows.clientWidth || this.host.clientWidth;
    return { width, gutter: gutterOf(width) };
  }

  private draw(): void {
    const { width, gutter } = this.measures();
    if (width < gutter + RIGHT + 20) return;
    const theme = themeNow();
    if (this.scopes.theme !== theme) this.scopes = new ScopeColors(this.data, theme);
    const { data, layout, view, scopes } = this;
    const colors = colorsNow();
    const height = this.rows.clientHeight;
    const bars = paintRows(prepare(this.rowsCanvas, width, height), {
      ...{ data, layout, view, gutter, height, colors, scopes },
      scrolled: this.rows.scrollTop,
      emphasis: { found: this.found, chain: this.chain, chosen: this.chosen },
    });
    const curve = data.curves[this.pool];
    paintMemory(prepare(this.memoryCanvas, width, memoryHeight(curve !== undefined)), {
      ...{ curve, view, gutter, colors },
      snapshots: data.snapshots,
    });
    this.host.dataset.bars = String(bars);
    this.host.dataset.from = String(view.from);
    this.host.dataset.to = String(view.to);
    if (this.spot) this.showSpotSoon();
  }

  // Mouse.

  private listenToPointer(): void {
    this.rowsCanvas.classList.add("time-area");
    for (const [canvas, onRows] of [
      [this.rowsCanvas, true],
      [this.memoryCanvas, false],
    ] as const) {
      this.listenToDrags(canvas, onRows);
      canvas.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
      canvas.addEventListener("pointerleave", () => {
        this.spot = null;
        this.showSpotSoon();
      });
      canvas.addEventListener("dblclick", (event) => {
        const at = onRows ? this.callUnder(this.spotOf(event, onRows)) : null;
        if (at) this.goTo(at.call, true);
        else this.showAll();
      });
    }
  }

  private listenToDrags(canvas: HTMLCanvasElement, onRows: boolean): void {
    let drag: { x: number; y: number; window: Window; scrolled: number; moved: boolean } | null = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      const { clientX: x, clientY: y } = event;
      drag = { x, y, window: this.window, scrolled: this.rows.scrollTop, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      this.spot = this.spotOf(event, onRows);
      if (drag) {
        const [across, down] = [drag.x - event.clientX, drag.y - event.clientY];
        drag.moved ||= Math.abs(across) > CLICK_TOLERANCE || Math.abs(down) > CLICK_TOLERANCE;
        if (drag.moved) {
          const { from, to } = drag.window;
          const shift = (across / this.view.width) * (to - from);
          this.show(within(this.data.length, from + shift, to + shift));
          if (onRows) this.rows.scrollTop = drag.scrolled + down;
          canvas.classList.add("gantt-dragged");
        }
      }
      this.showSpotSoon();
    });
    const end = (event: PointerEvent) => {
      const ended = drag;
      drag = null;
      canvas.classList.remove("gantt-dragged");
      if (!ended || ended.moved || event.type !== "pointerup" || !onRows) return;
      this.choose(this.callUnder(this.spotOf(event, onRows))?.call ?? -1);
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
  }

  private spotOf(event: MouseEvent, onRows: boolean): Spot {
    const box = this.host.getBoundingClientRect();
    return { left: event.clientX - box.left, top: event.clientY - box.top, onRows };
  }

  private timeAt(left: number): number {
    const { from, to, width } = this.view;
    return from + ((left - this.measures().gutter) / width) * (to - from);
  }

  private callUnder({ left, top, onRows }: Spot): { call: number; calls: number } | null {
    if (!onRows) return null;
    const row = this.layout.rowAt(top + this.rows.scrollTop);
    const { gutter } = this.measures();
    return row < 0 || left < gutter ? null : callAt(this.data, row, this.view, left - gutter);
  }

  private onWheel(event: WheelEvent): void {
    const left = event.clientX - this.host.getBoundingClientRect().left;
    // Over the lane names, the wheel scrolls the lanes.
    if (isPageScroll(event) || left < this.measures().gutter) return;
    const before = this.window;
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? 1 : 30;
    const { from, to, width } = this.view;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const sideways = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
      const shift = ((sideways * unit) / width) * (to - from);
      this.show(within(this.data.length, from + shift, to + shift));
    } else {
      const factor = Math.exp(Math.min(1, Math.max(-1, event.deltaY * unit * 0.002)));
      this.show(zoomed(this.data.length, before, factor, this.timeAt(left)));
    }
    // If the range can't change any further, the wheel scrolls the page.
    if (this.window.from !== before.from || this.window.to !== before.to) event.preventDefault();
  }

  // Keyboard.

  /** Handles a key; returns `false` for keys without a function. */
  private pressed(key: string, shift: boolean): boolean {
    const { length } = this.data;
    const { from, to } = this.window;
    const move = (share: number) =>
      this.show(within(length, from + (to - from) * share, to + (to - from) * share));
    const zoom = (factor: number) => this.show(zoomed(length, this.window, factor, (from + to) / 2));
    const act: Record<string, () => void> = {
      ArrowLeft: () => move(shift ? -0.5 : -0.1),
      ArrowRight: () => move(shift ? 0.5 : 0.1),
      ArrowUp: () => this.rows.scrollBy(0, -3 * ROW),
      ArrowDown: () => this.rows.scrollBy(0, 3 * ROW),
      "+": () => zoom(KEY_ZOOM),
      "=": () => zoom(KEY_ZOOM),
      "-": () => zoom(1 / KEY_ZOOM),
      "0": () => this.showAll(),
      Home: () => this.show(within(length, 0, to - from)),
      End: () => this.show(within(length, length - (to - from), length)),
      Escape: () => this.choose(-1),
      "/": () => this.onSearchKey(),
    };
    if (!Object.hasOwn(act, key)) return false;
    act[key]();
    return true;
  }

  // Overlay.

  private showSpot(): void {
    const { spot } = this;
    const { gutter, width } = this.measures();
    const isInside = spot !== null && spot.left >= gutter && spot.left <= width - RIGHT;
    this.cursor.hidden = !isInside;
    this.tooltip.hidden = !isInside;
    if (!spot || !isInside) return;
    this.cursor.style.transform = `translateX(${Math.round(spot.left)}px)`;
    const at = this.callUnder(spot);
    this.rowsCanvas.classList.toggle("gantt-over", at !== null);
    const perPixel = (this.window.to - this.window.from) / this.view.width;
    const time = this.timeAt(spot.left);
    const then = this.memoryAt(time);
    fill(
      this.tooltip,
      at && describeCall(this.data, at.call, perPixel),
      at && at.calls > 1 && describeCrowd(at.calls),
      h("div", { class: at ? "where gantt-then" : "" }, `at ${since(time, perPixel)}${then}`),
    );
    this.placeTooltip(spot);
  }

  private memoryAt(time: number): string {
    const curve = this.data.curves[this.pool];
    if (!curve) return "";
    const bytes = valueAt(curve, time);
    return Number.isNaN(bytes) ? `: ${curve.name} unknown` : `: ${size(bytes)} in ${curve.name}`;
  }

  /** Places the tooltip next to the cursor, on the side with room, within the chart if it fits. */
  private placeTooltip(spot: Spot): void {
    const { clientWidth, clientHeight } = this.host;
    const { offsetWidth: width, offsetHeight: height } = this.tooltip;
    const beside = spot.left + GAP + width <= clientWidth ? spot.left + GAP : spot.left - GAP - width;
    const across = Math.max(0, Math.min(beside, clientWidth - width));
    const down = Math.max(0, Math.min(spot.top + GAP, clientHeight - height));
    this.tooltip.style.transform = `translate(${Math.round(across)}px, ${Math.round(down)}px)`;
  }
}

const themeNow = (): "light" | "dark" =>
  document.documentElement.dataset.theme === "dark" ? "dark" : "light";
