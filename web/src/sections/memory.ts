// Memory over time: the memory allocated in each pool before every step, and its capacity.

import "./memory.css";
import { bankWords } from "../banks";
import { RUN_STRIP } from "../charts/layout";
import type { Key } from "../charts/legend";
import { type Line, LineChart } from "../charts/line-chart";
import { paintOom, paintOutside, paintPhases, paintRuns, paintWeights, weightSteps } from "../charts/marks";
import { factGrid, momentHead, poolFacts, positionTitle } from "../charts/moment-facts";
import { Overview } from "../charts/overview";
import { extremesOf } from "../charts/resample";
import { HINT } from "../charts/time-input";
import type { Pool, Rank } from "../data/report";
import { isPeakAtLeast } from "../data/summary";
import { fill, h } from "../dom";
import { partElements, percent, size, sizeElement } from "../format";
import { onJump } from "../jump";
import { type Section, section } from "../section";
import type { State, Store } from "../state";

/** If the peak is below this share of the capacity, the capacity line is hidden: it would flatten the curve. */
const LOW = 0.1;

const LINES: Line[] = [
  { label: "allocated", color: "allocated", look: "area", width: 1.5, fill: 0.22 },
  { label: "capacity", color: "capacity", look: "dashed", width: 1.5, dash: [8, 5] },
  { label: "largest free block", color: "largest-free", look: "thin", width: 1 },
  { label: "reserved", color: "reserved", look: "solid", width: 1.5 },
];

/** The area between the memory that the allocator reserved and the part of it that is allocated. */
const UNALLOCATED = { upper: 3, lower: 0, color: "reserved", share: 0.2 };

const UNALLOCATED_KEY: Key = {
  label: "reserved but unallocated",
  color: "reserved",
  look: "area",
  title: "Memory that the allocator holds but no tensor uses: cached for later allocations, or fragmented",
};
const WEIGHT_KEY: Key = { label: "creates or loads weights", color: "weight-mark", look: "tick" };
const OUTSIDE_KEY: Key = { label: "change between programs", color: "ink-3", look: "dotted" };
const OOM_KEY: Key = { label: "out of memory", color: "bad", look: "tick" };

export function memorySection(store: Store): Section {
  const depends = ["rank", "pool", "from", "to", "moment", "run", "theme"] as const;
  return section(store, "memory", "Memory over time", depends, (body, head) => {
    const view = new MemoryView(store, body, head);
    onJump("memory", (step) => {
      store.pin(step);
      view.focus();
    });
    return (state) => view.draw(state);
  });
}

class MemoryView {
  private readonly tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Pool" });
  private readonly facts = h("span", { class: "note memory-facts" });
  private readonly panel = h("div", { role: "tabpanel", id: "memory-panel" });
  private readonly note = h("p", { class: "note" });
  private readonly chart: LineChart;
  private readonly overview: Overview;
  private readonly keys: Key[] = [];
  private of: Pool | undefined;

  constructor(
    private readonly store: Store,
    body: HTMLElement,
    head: HTMLElement,
  ) {
    head.append(this.tabs, this.facts);
    this.tabs.addEventListener("keydown", (event) => this.onTabKey(event));
    this.chart = new LineChart(store, {
      height: 340,
      lines: LINES,
      between: [UNALLOCATED],
      keys: this.keys,
      marginTop: RUN_STRIP,
      fitTo: 1,
      describe: (spot) => spot && this.describe(spot.moment),
      flag: (moment) => positionTitle(store.state.rank, moment),
      under: (paint) => {
        paintPhases(paint, store.state.rank);
        paintRuns(paint, store.state.rank);
      },
      over: (paint) => {
        const pool = this.of;
        if (pool) paintOutside(paint, store.state.rank, pool);
        paintWeights(paint, store.state.rank);
        paintOom(paint, store.state.rank);
      },
    });
    this.overview = new Overview(store);
    body.append(this.panel);
  }

  focus(): void {
    this.chart.focus();
  }

  draw(state: State): void {
    const pool = state.rank.pools[state.pool];
    if (pool !== this.of || !pool) this.change(state, pool);
    if (!pool || whyEmpty(state.rank, pool)) return;
    this.chart.draw(state, {
      curves: [
        pool.held,
        has(pool.capacity) && pool.capacity,
        has(pool.largestFree) && pool.largestFree,
        pool.reserved && has(pool.reserved) && pool.reserved,
      ].map((curve) => curve || null),
      label: chartLabel(state.rank, pool),
      unit: bankWords(pool.extent).axis,
      snapTo: { curve: pool.held, tolerance: pool.quantum },
    });
    this.overview.draw(state, pool.held);
  }

  /** Switches to another pool, possibly of another rank. */
  private change(state: State, pool: Pool | undefined): void {
    const { rank } = state;
    this.of = pool;
    this.fillTabs(rank, state.pool);
    fill(this.facts, ...(pool ? peakFacts(this.store, rank, pool) : []));
    const why = whyEmpty(rank, pool);
    if (!pool || why) {
      fill(this.panel, h("p", { class: "note" }, why));
      return;
    }
    this.keys.length = 0;
    if (pool.reserved && has(pool.reserved)) this.keys.push(UNALLOCATED_KEY);
    if (weightSteps(rank).length > 0) this.keys.push(WEIGHT_KEY);
    if (rank.summary.outside.some((change) => change.pool === pool.name)) this.keys.push(OUTSIDE_KEY);
    if ((rank.summary.oom?.step ?? null) !== null) this.keys.push(OOM_KEY);
    const isLow = isFlat(pool);
    this.chart.showLines([true, !isLow, !isLow, true]);
    fill(
      this.note,
      isLow &&
        "Less than 10% of this pool is used, so its capacity is hidden. Click it in the legend to show it.",
    );
    this.note.hidden = !isLow;
    fill(
      this.panel,
      this.chart.element,
      this.overview.element,
      this.note,
      h("p", { class: "chart-hint" }, HINT),
    );
  }

  private fillTabs(rank: Rank, chosen: number): void {
    const tab = ({ name, index }: Pool) =>
      h(
        "button",
        {
          type: "button",
          role: "tab",
          "aria-selected": String(index === chosen),
          "aria-controls": "memory-panel",
          tabindex: index === chosen ? 0 : -1,
          onclick: () => this.store.set({ pool: index }),
        },
        name,
      );
    const hadFocus = this.tabs.contains(document.activeElement);
    fill(this.tabs, rank.poolsInOrder.map(tab));
    if (hadFocus) this.tabs.querySelector<HTMLElement>('[aria-selected="true"]')?.focus();
  }

  private onTabKey(event: KeyboardEvent): void {
    const turn = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    const { pool, rank } = this.store.state;
    const pools = rank.poolsInOrder;
    if (turn === 0 || pools.length === 0) return;
    event.preventDefault();
    const at = pools.findIndex(({ index }) => index === pool);
    this.store.set({ pool: pools[(at + turn + pools.length) % pools.length].index });
  }

  private describe(moment: number): Node | null {
    const { rank } = this.store.state;
    if (!this.of) return null;
    return h("div", {}, ...momentHead(rank, moment), factGrid(poolFacts(rank, this.of, moment)));
  }
}

const has = (curve: Pool["held"]): boolean => extremesOf(curve) !== null;

/** Whether the capacity line would flatten the curve. */
function isFlat(pool: Pool): boolean {
  const [peak, capacity] = [extremesOf(pool.held), extremesOf(pool.capacity)];
  return peak !== null && capacity !== null && peak[1] < capacity[1] * LOW;
}

/** The reason why the chart is empty; `null` if it is not. */
function whyEmpty(rank: Rank, pool: Pool | undefined): string | null {
  if (!pool) {
    return "The input has no memory states, and no tensors to reconstruct them from.";
  }
  const held = extremesOf(pool.held);
  if (!held) {
    return `The input does not report the use of ${pool.name}, and has no tensors to reconstruct it from.`;
  }
  if (held[1] > 0) return null;
  const failed =
    rank.summary.oom?.pool === pool.name ? " The program failed when it tried to allocate memory there." : "";
  return `${pool.name} was never used.${failed}`;
}

/** `peak 686.4 of 4080.0 MiB per bank (17%), before step 101` */
function peakFacts(store: Store, rank: Rank, pool: Pool): (Node | string)[] {
  const summary = rank.summary.pools[pool.name];
  if (!summary || summary.peak_per_bank === null) return [];
  const { perBank } = bankWords(summary.extent);
  const { peak_per_bank: peak, capacity_per_bank: capacity } = summary;
  const facts: (Node | string)[] = capacity
    ? ["peak ", ...partElements(peak, capacity), `${perBank} (${percent(peak, capacity)})`]
    : [isPeakAtLeast(summary) ? "peak at least " : "peak ", sizeElement(peak), perBank];
  const moment = pool.peakMoment;
  if (moment !== null) {
    const pin = () => store.pinMoment(moment);
    facts.push(
      ", ",
      h("button", { class: "link", type: "button", onclick: pin }, positionTitle(rank, moment)),
    );
  }
  return facts;
}

function chartLabel(rank: Rank, pool: Pool): string {
  const summary = rank.summary.pools[pool.name];
  const peak = `peak ${size(summary?.peak_per_bank ?? null)}`;
  const hasRoom = pool.extent !== "device" || (summary?.capacity_per_bank ?? null) !== null;
  const capacity = hasRoom ? `, capacity ${size(summary?.capacity_per_bank ?? null)}` : "";
  const { perBank } = bankWords(pool.extent);
  const when = pool.peakMoment === null ? "" : ` ${positionTitle(rank, pool.peakMoment)}`;
  return `Memory of ${pool.name} over time${perBank && `,${perBank}`}: ${peak}${when}${capacity}. Arrow keys move the pinned step.`;
}
