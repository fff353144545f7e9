// The overlay of a plot: the cursor line, the pinned moment, the selection and the tooltip. They are elements, so that
// moving the mouse redraws no canvas.

import { fill, h, oncePerFrame } from "../dom";
import type { State, Timed } from "../state";
import { xOf } from "./resample";

/** The cursor position: the moment, and CSS pixels within the plot. */
export interface Spot {
  moment: number;
  left: number;
  top: number;
}

/** The width of the longest flag, in pixels. */
const FLAG_WIDTH = 150;
/** Pixels between the cursor and the tooltip. */
const GAP = 14;

export class TimeOverlay {
  private readonly cursor = h("div", { class: "time-cursor", hidden: true });
  private readonly selection = h("div", { class: "time-selection", hidden: true });
  private readonly flag = h("span", { class: "time-flag" });
  private readonly pin = h("div", { class: "time-pin", hidden: true }, this.flag);
  private readonly tooltip = h("div", { class: "time-tooltip", role: "tooltip", hidden: true });
  private spot: Spot | null = null;
  private readonly showSpot = oncePerFrame(() => this.drawSpot());

  /** `describe` returns the tooltip's content; `null` hides it. */
  constructor(
    private readonly area: HTMLElement,
    /** The chart, which the tooltip stays within. */
    private readonly chart: HTMLElement,
    private readonly state: () => State<Timed>,
    private readonly describe: (spot: Spot | null) => Node | null,
    /** The text of the pin's flag. */
    private readonly title: (moment: number) => string,
  ) {
    area.append(this.selection, this.cursor, this.pin);
    chart.append(this.tooltip);
  }

  hover(spot: Spot): void {
    this.spot = spot;
    this.showSpot();
  }

  leave(): void {
    this.spot = null;
    this.showSpot();
  }

  select(range: [left: number, right: number] | null): void {
    this.selection.hidden = range === null;
    if (!range) return;
    this.selection.style.left = `${range[0]}px`;
    this.selection.style.width = `${range[1] - range[0]}px`;
  }

  /** Positions the pin in the visible range. */
  showPin(): void {
    const { moment, from, to } = this.state();
    const x = xOf(moment);
    this.pin.hidden = x < from || x > to;
    if (this.pin.hidden) return;
    const left = this.leftOf(moment);
    this.pin.style.transform = `translateX(${left}px)`;
    this.pin.classList.toggle("time-pin-left", left > this.area.clientWidth - FLAG_WIDTH);
    this.flag.textContent = this.title(moment);
  }

  private leftOf(moment: number): number {
    const { from, to } = this.state();
    return ((xOf(moment) - from) / (to - from)) * this.area.clientWidth;
  }

  private drawSpot(): void {
    const content = this.describe(this.spot);
    this.cursor.hidden = this.spot === null;
    this.tooltip.hidden = this.spot === null || content === null;
    if (!this.spot) return;
    const across = Math.min(Math.max(0, this.leftOf(this.spot.moment)), this.area.clientWidth);
    this.cursor.style.transform = `translateX(${across}px)`;
    if (content) {
      fill(this.tooltip, content);
      this.placeTooltip(this.spot);
    }
  }

  /** Places the tooltip next to the cursor, on the side with room, within the chart if it fits. */
  private placeTooltip(spot: Spot): void {
    const [area, chart] = [this.area.getBoundingClientRect(), this.chart.getBoundingClientRect()];
    const { offsetWidth: width, offsetHeight: height } = this.tooltip;
    const left = area.left - chart.left + spot.left;
    const beside = left + GAP + width <= chart.width ? left + GAP : left - GAP - width;
    const above = area.top - chart.top + spot.top + GAP;
    const across = Math.max(0, Math.min(beside, chart.width - width));
    const down = Math.max(0, Math.min(above, chart.height - height));
    this.tooltip.style.transform = `translate(${Math.round(across)}px, ${Math.round(down)}px)`;
  }
}
