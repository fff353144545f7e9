// The state of the view: the rank and pool, the pinned moment and the visible time range.

import { momentBefore, positionOf, type Rank } from "./data/report";

/** What charts over time know about a rank: the number of its positions, and its runs. */
export interface Timed {
  readonly end: number;
  readonly runs: { readonly parent: Int32Array; readonly first: Uint32Array; readonly end: Uint32Array };
}

export interface State<Shown extends Timed = Rank> {
  rank: Shown;
  /** The pool shown in the charts and the live set. */
  pool: number;
  /** The pinned moment. */
  moment: number;
  /** The time range shown in the charts, in positions; whole numbers are late sides. */
  from: number;
  to: number;
  /** The selected top-level run, from 1; `null` for all runs. */
  run: number | null;
  theme: "light" | "dark";
}

type Key = keyof State;
type Listener<Shown extends Timed> = (state: State<Shown>) => void;

/** The part of a store that charts over time use. */
export interface TimeStore {
  readonly state: Readonly<State<Timed>>;
  set(patch: Partial<Pick<State, "from" | "to" | "moment">>): void;
  pin(step: number): void;
  pinMoment(moment: number): void;
  showAll(): void;
}

/** Holds the state and notifies the listeners of changed keys, once per frame. */
export class Store<Shown extends Timed = Rank> implements TimeStore {
  private readonly listeners: { keys: readonly Key[]; listener: Listener<Shown> }[] = [];
  private changed = new Set<Key>();

  constructor(private current: State<Shown>) {}

  get state(): Readonly<State<Shown>> {
    return this.current;
  }

  set(patch: Partial<State<Shown>>): void {
    const keys = (Object.keys(patch) as Key[]).filter((key) => patch[key] !== this.current[key]);
    if (keys.length === 0) return;
    if (this.changed.size === 0) requestAnimationFrame(() => this.flush());
    this.current = { ...this.current, ...patch };
    for (const key of keys) this.changed.add(key);
  }

  on(keys: readonly Key[], listener: Listener<Shown>): void {
    this.listeners.push({ keys, listener });
  }

  private flush(): void {
    const changed = this.changed;
    this.changed = new Set();
    for (const { keys, listener } of this.listeners) {
      if (!keys.some((key) => changed.has(key))) continue;
      try {
        listener(this.current);
      } catch (error) {
        // A section that fails to draw must not keep the others from being updated.
        reportError(error);
      }
    }
  }

  /** Pins the moment before a step. */
  pin(step: number): void {
    this.pinMoment(momentBefore(step));
  }

  /** Pins a moment and moves the visible range to include it. */
  pinMoment(moment: number): void {
    const { from, to, rank } = this.current;
    const position = positionOf(moment);
    if (position >= from && position <= to) {
      this.set({ moment });
      return;
    }
    const width = to - from;
    const start = Math.max(0, Math.min(position - width / 2, rank.end - width));
    this.set({ moment, from: start, to: start + width });
  }

  /** Shows the whole rank, or the whole selected run. */
  showAll(): void {
    this.set(windowOf(this.current.rank, this.current.run));
  }
}

/** The range of a run, or of all runs: its first step, and one past its last. */
export function spanOf(rank: Timed, run: number | null): { from: number; to: number } {
  const row = run === null ? -1 : topLevelRuns(rank)[run - 1];
  if (row === undefined || row < 0) return { from: 0, to: rank.end };
  return { from: rank.runs.first[row], to: Math.max(rank.runs.first[row], rank.runs.end[row]) };
}

/** Like `spanOf`, but never empty, since a chart can't show an empty range. */
export function windowOf(rank: Timed, run: number | null): { from: number; to: number } {
  const { from, to } = spanOf(rank, run);
  return { from, to: Math.max(to, from + 1) };
}

/** The rows of the top-level runs, in order: run n is the n-th, counted from 1. */
export function topLevelRuns(rank: Timed): Uint32Array {
  let rows = topLevel.get(rank);
  if (!rows) {
    rows = Uint32Array.from(rank.runs.parent.keys()).filter((row) => rank.runs.parent[row] < 0);
    topLevel.set(rank, rows);
  }
  return rows;
}

const topLevel = new WeakMap<Timed, Uint32Array>();
