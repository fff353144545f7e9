// A chart of curves over time. uPlot draws axes and lines; zoom, pin and tooltip are implemented here, shared by all
// charts through the store.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import "./chart.css";
import type { Curve } from "../data/report";
import { fill, h, oncePerFrame } from "../dom";
import { count } from "../format";
import { onRedraw } from "../redraw";
import type { State, Timed, TimeStore } from "../state";
import { type Colors, colorsNow, translucent } from "./colors";
import { AXIS_HEIGHT, GUTTER, LETTER, MARGIN_RIGHT, MARGIN_TOP } from "./layout";
import { type Key, keyItem, keySwitch } from "./legend";
import { highest, lowest, momentAt, resample, type Snap } from "./resample";
import { byteTicks, STEP_INCREMENTS } from "./ticks";
import { listenToKeys, listenToPointer } from "./time-input";
import { type Spot, TimeOverlay } from "./time-overlay";
import { showsAll } from "./window";

export interface Line extends Key {
  /** In CSS pixels; 0 draws only the fill. */
  width: number;
  dash?: number[];
  /** The opacity of the area below the line. */
  fill?: number;
}

/** The fixed properties of a chart. */
export interface Form {
  height: number;
  lines: Line[];
  /** Fills the areas between two lines, where the upper one is above the lower one. */
  between?: { upper: number; lower: number; color: string; share: number }[];
  /** Legend entries for anything other than lines. */
  keys?: Key[];
  marginTop?: number;
  /** Adds a button that fits the y axis to the values of the first `fitTo` lines. */
  fitTo?: number;
  /** Whether values may be negative; otherwise the y axis begins at 0. */
  isSigned?: boolean;
  describe(spot: Spot | null): Node | null;
  /** The text of the pin's flag. */
  flag(moment: number): string;
  /** The label of the x axis, if it does not count steps. */
  axis?: Axis;
  /** Paints below the lines. */
  under?(paint: Paint): void;
  /** Paints above the lines. */
  over?(paint: Paint): void;
}

/** The labels of an x axis. */
export interface Axis {
  label: string;
  /** The number of lines of a text; 1 by default. */
  lines?: number;
  /** The space for the text of a position, in CSS pixels. */
  space: number;
  text(position: number): string;
}

const STEPS: Axis = { label: "step", space: 80, text: count };

/** The current content of a chart. */
export interface Content {
  /** One curve for each line; `null` if there is none. */
  curves: (Curve | null)[];
  /** A description of the chart in one sentence. */
  label: string;
  /** The label of the y axis: `per bank`. */
  unit: string;
  /** The curve that a click snaps to if one pixel covers many steps. */
  snapTo: Snap | null;
  /** Called before a window is drawn; returns the highest painted value. */
  prepare?(window: Window): number;
  /** Replaces `curves` by curves for a window. */
  curvesIn?(window: Window): (Curve | null)[];
}

/** The range about to be drawn. */
export interface Window {
  from: number;
  to: number;
  /** In CSS pixels. */
  width: number;
  /** Whether the y axis is fitted to the visible values. */
  fits: boolean;
}

/** A canvas and the chart's scales, in canvas pixels. */
export interface Paint {
  context: CanvasRenderingContext2D;
  colors: Colors;
  /** Canvas pixels per CSS pixel. */
  ratio: number;
  left: number;
  top: number;
  width: number;
  height: number;
  from: number;
  to: number;
  x(position: number): number;
  y(bytes: number): number;
}

const NO_CURVE_HEIGHT = 1024;
/** The height of a line of an axis label, as uPlot draws it. */
const LINE_HEIGHT = 1.5 * LETTER;

export class LineChart {
  readonly element: HTMLElement;
  private readonly legend = h("div", { class: "chart-legend" });
  private readonly host: HTMLElement;
  private readonly resetButton: HTMLButtonElement;
  private readonly fitButton: HTMLButtonElement;
  private plot: uPlot | undefined;
  private overlay: TimeOverlay | undefined;
  private content: Content | undefined;
  private shown: boolean[];
  private fits = false;
  private yRange: [number, number] = [0, NO_CURVE_HEIGHT];
  private colors = colorsNow();
  private drawn: readonly unknown[] = [];
  private theme: State["theme"] | undefined;
  private readonly drawAgain = oncePerFrame(() => this.replot());

  constructor(
    private readonly store: TimeStore,
    private readonly form: Form,
  ) {
    this.shown = form.lines.map(() => true);
    this.host = h("div", { class: "chart", tabindex: 0, role: "application" });
    this.host.style.minHeight = `${form.height}px`;
    this.fitButton = h("button", { type: "button", "aria-pressed": "false" }, "Fit height");
    this.fitButton.title = "Fit the y axis to the visible values";
    this.fitButton.addEventListener("click", () => this.setFit(!this.fits));
    this.resetButton = h("button", { type: "button", onclick: () => store.showAll() }, "Reset zoom");
    const bar = h("div", { class: "chart-bar" }, this.legend, h("span", { class: "spacer" }));
    if (form.fitTo) bar.append(this.fitButton);
    bar.append(this.resetButton);
    this.element = h("div", { class: "chart-box" }, bar, this.host);
    listenToKeys(this.host, store);
    new ResizeObserver(() => {
      // The observer also reports the initial size.
      if (this.plot?.width !== this.host.clientWidth) this.drawAgain();
    }).observe(this.host);
    onRedraw(() => this.replot());
  }

  /** The plot inside the axes; undefined until the first drawing. */
  get area(): HTMLElement | undefined {
    return this.plot?.over;
  }

  focus(): void {
    this.host.focus({ preventScroll: true });
  }

  /** Sets which lines are shown. */
  showLines(shown: boolean[]): void {
    this.shown = shown;
    this.drawn = [];
  }

  /** Replaces the legend entries for anything other than lines. */
  setKeys(keys: Key[]): void {
    this.form.keys = keys;
    this.drawn = [];
  }

  /** The value at a y coordinate of the plot. */
  valueAt(top: number): number {
    return this.plot ? this.plot.posToVal(top, "y") : 0;
  }

  /** Updates the content; redraws only if it looks different. */
  draw(state: State<Timed>, content: Content): void {
    this.content = content;
    this.host.setAttribute("aria-label", content.label);
    this.plot?.ctx.canvas.setAttribute("aria-label", content.label);
    this.resetButton.disabled = showsAll(state);
    if (this.theme !== state.theme) {
      // The page's colors have changed already: the top bar's listener runs first.
      this.theme = state.theme;
      this.drawn = [];
    }
    const next = [state.from, state.to, ...content.curves];
    if (next.length !== this.drawn.length || next.some((value, index) => value !== this.drawn[index])) {
      this.drawn = next;
      this.fillLegend();
      this.replot();
    }
    this.overlay?.showPin();
  }

  /** Sets whether the y axis is fitted to the visible values. */
  setFit(fits: boolean): void {
    this.fits = fits;
    this.fitButton.setAttribute("aria-pressed", String(fits));
    this.drawAgain();
  }

  private fillLegend(): void {
    const curves = this.content?.curves ?? [];
    const switches = this.form.lines.map((line, index) => {
      if (!curves[index]) return null;
      return keySwitch(line, this.shown[index], () => {
        this.shown[index] = !this.shown[index];
        this.fillLegend();
        this.replot();
      });
    });
    fill(this.legend, switches, (this.form.keys ?? []).map(keyItem));
  }

  /** Resamples the curves for the current range and draws them. */
  private replot(): void {
    const { content, host } = this;
    const width = host.clientWidth;
    if (!content || width < GUTTER + MARGIN_RIGHT + 20) return;
    this.colors = colorsNow();
    const { from, to } = this.store.state;
    const pixels = width - GUTTER - MARGIN_RIGHT;
    const window = { from, to, width: pixels, fits: this.fits };
    const painted = content.prepare?.(window) ?? 0;
    const all = content.curvesIn?.(window) ?? content.curves;
    const isShown = (index: number) => all[index] !== null && this.shown[index];
    const curves = all.filter((curve, index): curve is Curve => curve !== null && isShown(index));
    const samples = resample(curves, from, to, pixels * Math.min(2, devicePixelRatio));
    const none = samples.x.map(() => null);
    let next = 0;
    const values = all.map((_, index) => (isShown(index) ? samples.values[next++] : none));
    this.yRange = this.rangeOf(values, painted);
    const data = [samples.x, ...values] as uPlot.AlignedData;
    if (!this.plot) {
      this.create(data, width);
    } else {
      if (this.plot.width !== width) this.plot.setSize({ width, height: this.form.height });
      this.plot.setData(data, true);
    }
    // uPlot applies its new size at the end of this task.
    queueMicrotask(() => this.overlay?.showPin());
  }

  private rangeOf(values: (number | null)[][], painted: number): [number, number] {
    const top = values.reduce((top, line) => Math.max(top, highest(line) ?? 0), painted);
    const bottom = this.form.isSigned
      ? values.reduce((bottom, line) => Math.min(bottom, lowest(line) ?? 0), 0)
      : 0;
    const fitting = values.filter((_, index) => index < (this.form.fitTo ?? 0));
    if (this.fits && fitting.length > 0) {
      const high = fitting.reduce((high, line) => Math.max(high, highest(line) ?? 0), painted);
      const low = fitting.reduce((low, line) => Math.min(low, lowest(line) ?? high), high);
      const room = Math.max((high - low) * 0.08, high * 1e-4, 1);
      return [this.form.isSigned ? low - room : Math.max(0, low - room), high + room];
    }
    if (bottom < 0) return [bottom * 1.06, Math.max(top, -bottom / 10) * 1.06];
    return [0, top > 0 ? top * 1.06 : NO_CURVE_HEIGHT];
  }

  private create(data: uPlot.AlignedData, width: number): void {
    const plot = new uPlot(this.options(width), data, this.host);
    this.plot = plot;
    plot.ctx.canvas.setAttribute("role", "img");
    plot.ctx.canvas.setAttribute("aria-label", this.content?.label ?? "");
    const { store } = this;
    const overlay = new TimeOverlay(
      plot.over,
      this.host,
      () => store.state,
      this.form.describe,
      (moment) => this.form.flag(moment),
    );
    this.overlay = overlay;
    const pointedAt = (left: number) => {
      const { from, to, rank } = store.state;
      const perPixel = (to - from) / Math.max(1, plot.over.clientWidth);
      return momentAt(this.content?.snapTo ?? null, from + left * perPixel, perPixel, rank.end);
    };
    listenToPointer(plot.over, store, {
      hover: (left, top) => overlay.hover({ moment: pointedAt(left), left, top }),
      leave: () => overlay.leave(),
      select: (range) => overlay.select(range),
      momentAt: pointedAt,
    });
  }

  private options(width: number): uPlot.Options {
    const { form } = this;
    const font = `${LETTER}px ${this.colors.font}`;
    const color = (role: string) => () => this.colors.get(role);
    const grid = { stroke: color("line-2"), width: 1 };
    const ticks = { stroke: color("line"), width: 1, size: 5 };
    const y = (plot: uPlot) =>
      byteTicks(this.yRange[0], this.yRange[1], plot.bbox.height / uPlot.pxRatio / 44);
    const axis = form.axis ?? STEPS;
    return {
      width,
      height: form.height,
      padding: [form.marginTop ?? MARGIN_TOP, MARGIN_RIGHT, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      scales: {
        x: { time: false, range: () => [this.store.state.from, this.store.state.to] },
        y: { range: () => this.yRange },
      },
      axes: [
        {
          stroke: color("ink-2"),
          font,
          labelFont: font,
          label: axis.label,
          labelSize: 16,
          labelGap: 0,
          size: AXIS_HEIGHT - 16 + ((axis.lines ?? 1) - 1) * LINE_HEIGHT,
          space: axis.space,
          incrs: STEP_INCREMENTS,
          values: (_, splits) => splits.map((position) => axis.text(position)),
          grid,
          ticks,
        },
        {
          stroke: color("ink-2"),
          font,
          labelFont: font,
          label: () => this.content?.unit ?? "",
          labelSize: 16,
          labelGap: 2,
          size: GUTTER - 16,
          splits: (plot) => y(plot).at,
          values: (plot) => y(plot).labels,
          grid,
          ticks,
        },
      ],
      series: [{}, ...form.lines.map((line) => this.seriesOf(line))],
      bands: (form.between ?? []).map(({ upper, lower, color, share }) => ({
        series: [upper + 1, lower + 1] as [number, number],
        fill: () => translucent(this.colors.get(color), share),
      })),
      hooks: {
        drawAxes: [(plot) => form.under?.(this.paintOf(plot))],
        draw: [(plot) => form.over?.(this.paintOf(plot))],
      },
    };
  }

  private seriesOf(line: Line): uPlot.Series {
    return {
      label: line.label,
      stroke: () => this.colors.get(line.color),
      width: line.width,
      ...(line.dash && { dash: line.dash }),
      ...(line.fill && { fill: () => translucent(this.colors.get(line.color), line.fill ?? 0) }),
      points: { show: false },
    };
  }

  private paintOf(plot: uPlot): Paint {
    const { from, to } = this.store.state;
    return {
      context: plot.ctx,
      colors: this.colors,
      ratio: uPlot.pxRatio,
      ...{ left: plot.bbox.left, top: plot.bbox.top, width: plot.bbox.width, height: plot.bbox.height },
      from,
      to,
      x: (position) => plot.valToPos(position, "x", true),
      y: (bytes) => plot.valToPos(bytes, "y", true),
    };
  }
}
