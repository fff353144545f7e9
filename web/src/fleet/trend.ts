// The trend over runs: the peak of each run, oldest first, and a line per model.

import { colorsNow } from "../charts/colors";
import { byteTicks } from "../charts/ticks";
import { fill, h, oncePerFrame } from "../dom";
import { counted, shorten } from "../format";
import { prepare } from "../gantt/painter";
import type { Answer, Fleet } from "./data";
import { of } from "./heat-map";
import { timeText } from "./tables";

const HEIGHT = 220;
const EDGES = { left: 80, right: 16, top: 12, bottom: 26 };
const LETTER = 12;
/** Models with their own colors. */
const ROLES = [
  "class-weight",
  "class-activation",
  "class-input",
  "class-gradient",
  "class-optimizer",
  "class-argument",
];

export interface Point {
  run: string;
  model: string | null;
  time: number;
  ranks: number;
  failed: number;
  peak: number;
  capacity: number | null;
  /** The place of the run, from the oldest. Models of a run have the same. */
  place: number;
  /** The place of the rank with the peak. */
  rank: number | null;
}

/** The points, oldest first. Runs without a peak have none. */
export function pointsOf({ columns, rows }: Answer): Point[] {
  const at = (name: string) => columns.indexOf(name);
  const number = (row: Answer["rows"][number], name: string) => row[at(name)] as number | null;
  const places = new Map<string, number>();
  return [...rows].reverse().flatMap((row) => {
    const [peak, run] = [number(row, "peak_bytes"), String(row[at("run")])];
    if (peak === null) return [];
    const place = places.get(run) ?? places.size;
    places.set(run, place);
    return {
      ...{ run, place, peak, model: row[at("model")] as string | null, time: number(row, "time_ns") ?? 0 },
      ...{ ranks: number(row, "ranks") ?? 0, failed: number(row, "failed") ?? 0 },
      ...{ capacity: number(row, "capacity_bytes"), rank: number(row, "rank_id") },
    };
  });
}

export class Trend {
  readonly element: HTMLElement;
  onSelect: (rank: number) => void = () => {};
  private readonly canvas = h("canvas", { "aria-hidden": true });
  private readonly dot = h("div", { class: "trend-dot", hidden: true });
  private readonly tooltip = h("div", { class: "time-tooltip", role: "tooltip", hidden: true });
  private readonly said = h("p", { class: "visually-hidden", "aria-live": "polite" });
  private readonly host: HTMLElement;
  private readonly places: number;
  private readonly highest: number;
  private readonly models: (string | null)[];
  private at = -1;
  private readonly drawSoon = oncePerFrame(() => this.draw());

  constructor(
    private readonly fleet: Fleet,
    private readonly points: Point[],
  ) {
    this.places = 1 + points.reduce((max, { place }) => Math.max(max, place), 0);
    this.highest = points.reduce((max, { peak, capacity }) => Math.max(max, peak, capacity ?? 0), 1);
    this.models = [...new Set(points.map(({ model }) => model))];
    const label = `Peaks of ${counted(this.places, "run")}, oldest first. Arrow keys move, Enter selects the rank.`;
    this.host = h(
      "div",
      { class: "chart trend-chart", tabindex: 0, role: "application", "aria-label": label },
      ...[this.canvas, this.dot, this.tooltip],
    );
    this.element = h("div", {}, this.legend(), this.host, this.said);
    this.listen();
    new ResizeObserver(() => this.drawSoon()).observe(this.host);
  }

  recolor(): void {
    this.drawSoon();
  }

  private legend(): HTMLElement | null {
    if (this.models.length < 2 || this.models.length > ROLES.length) return null;
    const keys = this.models.map((model, at) => {
      const swatch = h("span", { class: "chart-swatch", style: `--swatch: var(--${ROLES[at]})` });
      return h("span", { class: "chart-key" }, swatch, shorten(model ?? "no model", 40));
    });
    return h("div", { class: "chart-bar" }, keys);
  }

  private xOf({ place }: Point): number {
    const width = this.host.clientWidth - EDGES.left - EDGES.right;
    return EDGES.left + (this.places === 1 ? width / 2 : (place / (this.places - 1)) * width);
  }

  private yOf(bytes: number): number {
    const height = HEIGHT - EDGES.top - EDGES.bottom;
    return EDGES.top + height * (1 - bytes / this.highest);
  }

  private draw(): void {
    const width = this.host.clientWidth;
    if (width < EDGES.left + EDGES.right + 20) return;
    const context = prepare(this.canvas, width, HEIGHT);
    const colors = colorsNow();
    context.font = `${LETTER}px ${colors.font}`;
    context.textBaseline = "middle";
    const line = (y: number, color: string, dash: number[] = []) => {
      context.strokeStyle = color;
      context.setLineDash(dash);
      context.beginPath();
      context.moveTo(EDGES.left, Math.round(y) + 0.5);
      context.lineTo(width - EDGES.right, Math.round(y) + 0.5);
      context.stroke();
      context.setLineDash([]);
    };
    const ticks = byteTicks(0, this.highest, 4);
    context.textAlign = "right";
    ticks.at.forEach((bytes, at) => {
      line(this.yOf(bytes), colors.get("line-2"));
      context.fillStyle = colors.get("ink-3");
      context.fillText(ticks.labels[at], EDGES.left - 8, this.yOf(bytes));
    });
    const [capacity] = this.points.map((point) => point.capacity);
    if (capacity && this.points.every((point) => point.capacity === capacity)) {
      line(this.yOf(capacity), colors.get("capacity"), [5, 4]);
      context.fillStyle = colors.get("capacity");
      context.textAlign = "left";
      context.fillText("capacity", EDGES.left, this.yOf(capacity) + 9);
    }
    this.models.forEach((model, at) => {
      const role = this.models.length > ROLES.length ? "allocated" : ROLES[at];
      this.drawModel(
        context,
        this.points.filter((point) => point.model === model),
        colors.get(role),
        colors.get("bad"),
      );
    });
    this.drawTimes(context, width, colors.get("ink-3"));
    this.host.dataset.points = String(this.points.length);
    this.showPoint();
  }

  private drawModel(context: CanvasRenderingContext2D, points: Point[], color: string, bad: string): void {
    context.strokeStyle = color;
    context.lineWidth = 1.5;
    context.beginPath();
    for (const point of points) context.lineTo(this.xOf(point), this.yOf(point.peak));
    context.stroke();
    context.lineWidth = 1;
    for (const point of points) {
      context.fillStyle = point.failed > 0 ? bad : color;
      const [x, y] = [this.xOf(point), this.yOf(point.peak)];
      context.beginPath();
      // A run that failed is a square, so that color is not the only difference.
      if (point.failed > 0) context.rect(x - 4, y - 4, 8, 8);
      else context.arc(x, y, 3.5, 0, 2 * Math.PI);
      context.fill();
    }
  }

  private drawTimes(context: CanvasRenderingContext2D, width: number, color: string): void {
    context.fillStyle = color;
    const y = HEIGHT - EDGES.bottom / 2;
    const first = this.points[0];
    const last = this.points[this.points.length - 1];
    context.textAlign = "left";
    context.fillText(timeText(first.time), EDGES.left, y);
    if (last.place === first.place || width < 480) return;
    context.textAlign = "right";
    context.fillText(timeText(last.time), width - EDGES.right, y);
  }

  private listen(): void {
    this.host.addEventListener("pointermove", (event) => {
      const box = this.host.getBoundingClientRect();
      this.go(this.nearest(event.clientX - box.left, event.clientY - box.top));
    });
    this.host.addEventListener("pointerleave", () => this.go(-1));
    this.host.addEventListener("blur", () => this.go(-1));
    this.host.addEventListener("click", () => this.select());
    this.host.addEventListener("keydown", (event) => {
      const last = this.points.length - 1;
      const act: Record<string, () => void> = {
        ArrowLeft: () => this.go(this.at < 0 ? last : Math.max(0, this.at - 1)),
        ArrowRight: () => this.go(Math.min(last, this.at + 1)),
        Home: () => this.go(0),
        End: () => this.go(last),
        Enter: () => this.select(),
        Escape: () => this.go(-1),
      };
      if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(act, event.key)) return;
      event.preventDefault();
      act[event.key]();
      this.said.textContent = this.tooltip.hidden ? "" : this.tooltip.textContent;
    });
  }

  private nearest(x: number, y: number): number {
    const distance = (point: Point) => Math.abs(this.xOf(point) - x) * 3 + Math.abs(this.yOf(point.peak) - y);
    return this.points.reduce(
      (best, point, at) => (distance(point) < distance(this.points[best]) ? at : best),
      0,
    );
  }

  private select(): void {
    const rank = this.points[this.at]?.rank ?? null;
    if (rank !== null) this.onSelect(rank);
  }

  private go(at: number): void {
    this.at = at;
    this.showPoint();
  }

  private showPoint(): void {
    const point = this.points[this.at];
    this.dot.hidden = this.tooltip.hidden = point === undefined;
    if (!point) return;
    const [x, y] = [this.xOf(point), this.yOf(point.peak)];
    this.dot.style.left = `${x}px`;
    this.dot.style.top = `${y}px`;
    const facts: [name: string, value: string | null][] = [
      ["time", timeText(point.time)],
      ["model", point.model],
      ["peak", of(point.peak, point.capacity)],
      [
        "ranks",
        `${counted(point.ranks, "rank")}${point.failed > 0 ? `, ${point.failed} ran out of memory` : ""}`,
      ],
      ["labels", point.rank === null ? null : this.fleet.labelsOf(point.rank)],
    ];
    const known = facts.filter(([, value]) => value !== null);
    const cells = known.flatMap(([name, value]) => [
      h("span", { class: "name" }, name),
      h("span", {}, shorten(value ?? "", 200)),
    ]);
    fill(
      this.tooltip,
      h("strong", {}, shorten(point.run, 80)),
      h("div", { class: "facts heat-facts" }, cells),
    );
    const { offsetWidth: wide, offsetHeight: high } = this.tooltip;
    const left = x + 14 + wide > this.host.clientWidth ? x - wide - 14 : x + 14;
    const top = Math.min(Math.max(0, y - high / 2), Math.max(0, HEIGHT - high));
    this.tooltip.style.transform = `translate(${Math.max(0, left)}px, ${top}px)`;
  }
}
