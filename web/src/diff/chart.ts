// The memory of both inputs over one axis, the difference below it, and the pinned moment in words.

import { bankWords } from "../banks";
import { RUN_STRIP } from "../charts/layout";
import type { Key } from "../charts/legend";
import { type Axis, type Line, LineChart } from "../charts/line-chart";
import { Overview } from "../charts/overview";
import { HINT } from "../charts/time-input";
import { Curve } from "../data/report";
import { fill, h } from "../dom";
import { size } from "../format";
import type { ChangeRow } from "../generated/answers";
import type { State, Store } from "../state";
import { type AlignedPool, type AlignedRank, type Both, Kind, SIDES, type Side } from "./data";
import { describe, momentTitle, tickText } from "./describe";
import { paintFailures, paintLives, paintPeaks, paintStretches } from "./marks";

const LINES: Line[] = [
  { label: "before", color: "diff-before", look: "solid", width: 1.75 },
  { label: "after", color: "diff-after", look: "solid", width: 1.75 },
  { label: "selected change, before", color: "diff-before", look: "area", width: 1, fill: 0.4 },
  { label: "selected change, after", color: "diff-after", look: "area", width: 1, fill: 0.4 },
];
const GREW: Key = { label: "grew", color: "bad", look: "area", title: "The second input uses more" };
const SHRANK: Key = { label: "shrank", color: "good", look: "area", title: "The second input uses less" };
/** Shown only if there are such places. */
const STRETCHES: readonly (readonly [kinds: readonly number[], key: Key])[] = [
  [[Kind.Before], { label: "steps only before", color: "diff-before", look: "block" }],
  [[Kind.After], { label: "steps only after", color: "diff-after", look: "block" }],
  [[Kind.MovedBefore, Kind.MovedAfter], { label: "reordered steps", color: "diff-moved", look: "block" }],
];
const DIFFERENCE: Line[] = [
  { label: "after − before", color: "ink-2", look: "area", width: 1.25, fill: 0.18 },
];

/** A row of the table of changes, with its index. */
export interface Selection {
  index: number;
  row: ChangeRow;
}

export class DiffChart {
  readonly element = h("div", {});
  private readonly chart: LineChart;
  private readonly difference: LineChart;
  private readonly overview: Overview;
  private readonly moment = h("div", { class: "diff-moment", "aria-live": "polite" });
  private readonly note = h("p", { class: "note" });
  private pool: AlignedPool | undefined;
  private keys: Key[] = [];
  private described: { pool: AlignedPool; moment: number } | undefined;
  private selection: Selection | null = null;
  private lives: Both<Curve | null> = { before: null, after: null };
  private areas: Both<Curve | null> = { before: null, after: null };

  constructor(private readonly store: Store<AlignedRank>) {
    const rank = () => store.state.rank;
    const axis: Axis = {
      label: "step (before, after)",
      lines: 2,
      space: 90,
      text: (place) => tickText(rank(), place),
    };
    const common = {
      axis,
      describe: (spot: { moment: number } | null) =>
        spot && this.pool ? describe(rank(), this.pool, spot.moment) : null,
      flag: (moment: number) => momentTitle(rank(), moment),
    };
    this.chart = new LineChart(store, {
      ...common,
      height: 360,
      lines: LINES,
      between: [
        { upper: 1, lower: 0, color: "bad", share: 0.2 },
        { upper: 0, lower: 1, color: "good", share: 0.2 },
      ],
      marginTop: RUN_STRIP,
      fitTo: 2,
      under: (paint) => paintStretches(paint, rank()),
      over: (paint) => {
        paintLives(paint, this.lives);
        if (this.pool) paintPeaks(paint, this.pool, (side) => this.pool?.held[side] !== null);
        paintFailures(paint, rank());
      },
    });
    this.difference = new LineChart(store, { ...common, height: 150, lines: DIFFERENCE, isSigned: true });
    this.overview = new Overview(store);
    fill(
      this.element,
      this.note,
      this.chart.element,
      this.overview.element,
      this.difference.element,
      h("p", { class: "chart-hint" }, HINT),
      this.moment,
    );
  }

  /** Marks the tensors of a change; `null` for none. */
  select(selection: Selection | null): void {
    this.selection = selection;
    const { rank } = this.store.state;
    const lives = selection && rank.liveOf(selection.index);
    this.lives = { before: null, after: null };
    for (const side of SIDES) if (lives && lives[side].at.length > 0) this.lives[side] = lives[side];
    // The bars are painted even if no curve changes.
    this.chart.setKeys(this.keys);
    const isVisible = SIDES.some((side) => this.lives[side] && livesIn(this.lives[side], this.store.state));
    if (lives && !isVisible) this.store.showAll();
  }

  draw(state: State<AlignedRank>): void {
    const { rank } = state;
    const pool = rank.pools[state.pool];
    if (!pool) {
      fill(this.element, h("p", { class: "note" }, "The inputs have no memory states."));
      return;
    }
    if (pool !== this.pool) {
      this.pool = pool;
      this.keys = keysOf(rank, pool);
      this.chart.setKeys(this.keys);
    }
    this.updateAreas(pool);
    this.chart.draw(state, {
      curves: [pool.held.before, pool.held.after, this.areas.before, this.areas.after],
      label: labelOf(rank, pool),
      unit: bankWords(pool.extent).axis,
      snapTo: { curve: pool.higher, tolerance: pool.quantum },
    });
    this.difference.element.hidden = pool.difference === null;
    if (pool.difference) {
      this.difference.draw(state, {
        curves: [pool.difference],
        label: `Difference of ${pool.name} between both inputs. Arrow keys move the pinned step.`,
        unit: bankWords(pool.extent).axis,
        snapTo: { curve: pool.higher, tolerance: pool.quantum },
      });
    }
    this.overview.draw(state, pool.higher);
    const why = whyMissing(pool);
    this.note.hidden = why === null;
    fill(this.note, why);
    this.describeMoment(pool, state.moment);
  }

  /** Describes the pinned moment. Screen readers read the text again whenever it is replaced. */
  private describeMoment(pool: AlignedPool, moment: number): void {
    if (this.described?.pool === pool && this.described.moment === moment) return;
    this.described = { pool, moment };
    fill(this.moment, describe(this.store.state.rank, pool, moment));
  }

  /** The memory of the selected tensors, if they are in the shown pool. */
  private updateAreas(pool: AlignedPool): void {
    const { selection } = this;
    const poolOf = (side: Side, row: ChangeRow) =>
      side === "before" ? (row.moved_from?.pool ?? row.pool) : row.pool;
    for (const side of SIDES) {
      const curve = selection && poolOf(side, selection.row) === pool.name ? this.lives[side] : null;
      if (!curve) this.areas[side] = null;
      else if (!this.areas[side] || this.areas[side].at !== curve.at) this.areas[side] = withGaps(curve);
    }
  }
}

/** Why a curve is missing; `null` if none is. */
function whyMissing({ name, held }: AlignedPool): string | null {
  if (held.before && held.after) return null;
  if (!held.before && !held.after) return `Neither input reports the use of ${name}.`;
  return `The ${held.before ? "second" : "first"} input does not report the use of ${name}.`;
}

/** The curve without its zeros, so that no line is drawn while its tensors are not live. */
function withGaps({ at, value }: Curve): Curve {
  return new Curve(
    at,
    value.map((bytes) => (bytes === 0 ? Number.NaN : bytes)),
  );
}

/** Whether a tensor is live in the visible range. */
function livesIn(curve: Curve, { from, to }: State<AlignedRank>): boolean {
  const [first, last] = [curve.indexAt(2 * from), curve.indexAt(2 * to)];
  for (let row = Math.max(0, first); row <= last; row++) if (curve.value[row] !== 0) return true;
  return false;
}

function keysOf({ stretches }: AlignedRank, pool: AlignedPool): Key[] {
  const has = (kinds: readonly number[]) =>
    kinds.some((kind) => stretches.placesBefore(kind, stretches.end) > 0);
  const values = pool.difference?.value ?? new Float64Array();
  return [
    ...(values.some((bytes) => bytes > 0) ? [GREW] : []),
    ...(values.some((bytes) => bytes < 0) ? [SHRANK] : []),
    ...STRETCHES.filter(([kinds]) => has(kinds)).map(([, key]) => key),
  ];
}

function labelOf(rank: AlignedRank, pool: AlignedPool): string {
  const peaks = SIDES.map((side) => {
    const moment = pool.peak[side];
    return moment === null
      ? `no peak ${side}`
      : `peak ${side} ${size(pool.heldAt(side, moment))}, ${momentTitle(rank, moment)}`;
  });
  const { perBank } = bankWords(pool.extent);
  return `Memory of ${pool.name} in both inputs over their steps${perBank && `,${perBank}`}: ${peaks.join("; ")}. Arrow keys move the pinned step.`;
}
