// What is looked at: which rank and pool, which moment is pinned, which stretch of time is shown.

import { momentBefore, positionOf, type Rank } from "./data/report";

export interface State {
  rank: Rank;
  /** The pool that the charts and the live set are about. */
  pool: number;
  /** The pinned moment. */
  moment: number;
  /** The stretch of time that the charts show, in positions; whole numbers are late sides. */
  from: number;
  to: number;
  /** The top-level run that is looked at alone, from 1; `null`: all. */
  run: number | null;
  theme: "light" | "dark";
}

type Key = keyof State;
type Listener = (state: State) => void;

/** Holds the state and tells who depends on what changed, once per frame. */
export class Store {
  private readonly listeners: { keys: readonly Key[]; listener: Listener }[] = [];
  private changed = new Set<Key>();

  constructor(private current: State) {}

  get state(): Readonly<State> {
    return this.current;
  }

  set(patch: Partial<State>): void {
    const keys = (Object.keys(patch) as Key[]).filter((key) => patch[key] !== this.current[key]);
    if (keys.length === 0) return;
    if (this.changed.size === 0) requestAnimationFrame(() => this.flush());
    this.current = { ...this.current, ...patch };
    for (const key of keys) this.changed.add(key);
  }

  on(keys: readonly Key[], listener: Listener): void {
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
        // One section that cannot be drawn is no reason to leave the others as they were.
        reportError(error);
      }
    }
  }

  /** Pins the moment before a step. */
  pin(step: number): void {
    this.pinMoment(momentBefore(step));
  }

  /** Pins a moment, and brings it into view. */
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

  /** Shows all of the rank, or of the run that is looked at. */
  showAll(): void {
    this.set(windowOf(this.current.rank, this.current.run));
  }
}

/** The stretch of time of a run, or of all runs: its first step, and one past its last. */
export function spanOf(rank: Rank, run: number | null): { from: number; to: number } {
  const row = run === null ? -1 : topLevelRuns(rank)[run - 1];
  if (row === undefined || row < 0) return { from: 0, to: rank.end };
  return { from: rank.runs.first[row], to: Math.max(rank.runs.first[row], rank.runs.end[row]) };
}

/** The same for charts, which cannot show nothing. */
export function windowOf(rank: Rank, run: number | null): { from: number; to: number } {
  const { from, to } = spanOf(rank, run);
  return { from, to: Math.max(to, from + 1) };
}

/** The rows of the runs that ran in no other, in order: run n is the n-th, from 1. */
export function topLevelRuns(rank: Rank): Uint32Array {
  let rows = topLevel.get(rank);
  if (!rows) {
    rows = Uint32Array.from(rank.runs.parent.keys()).filter((row) => rank.runs.parent[row] < 0);
    topLevel.set(rank, rows);
  }
  return rows;
}

const topLevel = new WeakMap<Rank, Uint32Array>();
