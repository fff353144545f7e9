// A strip below a chart with the whole curve and the range that the charts show. Drag the range to move it, its edges to
// resize it, or any other part to select a new range.

import "./overview.css";
import type { Curve } from "../data/report";
import { h, oncePerFrame } from "../dom";
import { onRedraw } from "../redraw";
import { type State, type Timed, type TimeStore, windowOf } from "../state";
import { colorsNow, translucent } from "./colors";
import { GUTTER, MARGIN_RIGHT } from "./layout";
import { highest, resample } from "./resample";
import { showWindow } from "./window";

const HEIGHT = 40;
/** The distance from an edge that still grabs it, in pixels. */
const EDGE = 7;

export class Overview {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", { "aria-hidden": "true" });
  private readonly view = h("div", { class: "strip-window" });
  private readonly strip = h("div", { class: "strip-box" }, this.canvas, this.view);
  private curve: Curve | null = null;
  private theme: State["theme"] | undefined;
  private readonly drawAgain = oncePerFrame(() => this.paint());

  constructor(private readonly store: TimeStore) {
    this.element = h(
      "div",
      { class: "chart-strip", title: "Whole run; drag to select the range shown in the charts" },
      this.strip,
    );
    this.strip.style.marginLeft = `${GUTTER}px`;
    this.strip.style.marginRight = `${MARGIN_RIGHT}px`;
    this.strip.style.height = `${HEIGHT}px`;
    this.listen();
    new ResizeObserver(this.drawAgain).observe(this.strip);
    onRedraw(() => this.paint());
  }

  draw(state: State<Timed>, curve: Curve): void {
    if (this.curve !== curve || this.theme !== state.theme) this.drawAgain();
    this.curve = curve;
    this.theme = state.theme;
    const whole = windowOf(state.rank, null);
    const share = (position: number) => ((position - whole.from) / (whole.to - whole.from)) * 100;
    this.view.style.left = `${share(state.from)}%`;
    this.view.style.width = `${share(state.to) - share(state.from)}%`;
  }

  private paint(): void {
    const context = this.canvas.getContext("2d");
    const width = this.strip.clientWidth;
    if (!context || !this.curve || width === 0) return;
    const ratio = devicePixelRatio;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(HEIGHT * ratio);
    const { from, to } = windowOf(this.store.state.rank, null);
    const { x, values } = resample([this.curve], from, to, width * ratio);
    const top = (highest(values[0]) ?? 0) * 1.05 || 1;
    const color = colorsNow().get("allocated");
    const across = (position: number) => ((position - from) / (to - from)) * this.canvas.width;
    const down = (bytes: number) => (1 - bytes / top) * this.canvas.height;
    context.beginPath();
    let open: number | null = null;
    values[0].forEach((value, index) => {
      if (value !== null) {
        if (open === null) context.moveTo(across(x[index]), this.canvas.height);
        open = across(x[index]);
        context.lineTo(open, down(value));
      } else if (open !== null) {
        context.lineTo(open, this.canvas.height);
        open = null;
      }
    });
    if (open !== null) context.lineTo(open, this.canvas.height);
    context.fillStyle = translucent(color, 0.45);
    context.fill();
  }

  private listen(): void {
    let drag: { kind: "move" | "left" | "right" | "new"; start: number; from: number; to: number } | null =
      null;
    const positionAt = (event: PointerEvent) => {
      const box = this.strip.getBoundingClientRect();
      const whole = windowOf(this.store.state.rank, null);
      const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      return whole.from + share * (whole.to - whole.from);
    };
    this.strip.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      const { from, to } = this.store.state;
      drag = { kind: this.grabbed(event), start: positionAt(event), from, to };
      this.strip.setPointerCapture(event.pointerId);
    });
    this.strip.addEventListener("pointermove", (event) => {
      const now = positionAt(event);
      if (!drag) {
        this.strip.dataset.grab = this.grabbed(event);
      } else if (drag.kind === "move") {
        showWindow(this.store, drag.from + now - drag.start, drag.to + now - drag.start);
      } else if (drag.kind === "left") {
        showWindow(this.store, Math.min(now, drag.to), drag.to);
      } else if (drag.kind === "right") {
        showWindow(this.store, drag.from, Math.max(now, drag.from));
      } else if (now !== drag.start) {
        showWindow(this.store, Math.min(now, drag.start), Math.max(now, drag.start));
      }
    });
    this.strip.addEventListener("pointerup", (event) => {
      // A click outside the range moves it there.
      if (drag?.kind === "new" && positionAt(event) === drag.start) {
        const half = (drag.to - drag.from) / 2;
        showWindow(this.store, drag.start - half, drag.start + half);
      }
      drag = null;
    });
    this.strip.addEventListener("pointercancel", () => {
      drag = null;
    });
    this.strip.addEventListener("dblclick", () => this.store.showAll());
  }

  /** The part under the pointer that a drag would move. */
  private grabbed(event: PointerEvent): "move" | "left" | "right" | "new" {
    const box = this.view.getBoundingClientRect();
    const whole = this.strip.getBoundingClientRect();
    const isWhole = box.width >= whole.width - 1;
    if (!isWhole && Math.abs(event.clientX - box.left) <= EDGE) return "left";
    if (!isWhole && Math.abs(event.clientX - box.right) <= EDGE) return "right";
    return !isWhole && event.clientX > box.left && event.clientX < box.right ? "move" : "new";
  }
}
